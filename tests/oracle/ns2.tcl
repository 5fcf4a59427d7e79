# A network that `ns2.py` describes, in ns-2: `ns ns2.tcl SCENARIO`, a file of Tcl that sets
#   links    {{capacity delay limit loss} ...}             bit/s, s, packets, share lost at random on the wire
#   routes   {{access_delay ack_delay link link ...} ...}  s, s; one pair of hosts each
#   flows    {{route start stop packets} ...}              stop and packets: -1 for none
#   queue, tcp_class, sink_class      of links, senders and receivers
#   set_up                            Tcl that is run for each sender, $tcp
#   options  {{class name value} ...}                      defaults of classes
#   sampled, duration, look, period   flows that are sampled; s; s between looks at queues; s, a multiple of look
#   seed                              of the routers' first ticks, of losses and of delays of senders
# and prints a row a period, after the word `row`: per sampled flow the data packets sent and those acknowledged; per link the most bytes
# waiting at any look, the integral of the bytes waiting [byte s], the bytes that arrived, the packets dropped and those
# that left marked; at last the window of each sampled flow [packets]. The packet in service is not among those waiting.
source [lindex $argv 0]

Queue set limit_ 10000000
Agent/TCP set useHeaders_ false
foreach option $options {
    lassign $option class name value
    $class set $name $value
}

set ns [new Simulator]
$ns rtproto Manual ;# ns-2 would look for the shortest way between any two of the hosts
ns-random $seed
set wide 1e13

foreach link $links {
    lassign $link capacity delay limit loss
    set from [$ns node]
    set to [$ns node]
    $ns simplex-link $from $to $capacity ${delay}s $queue
    if {$queue eq "XCP"} { [[$ns link $from $to] queue] set-link-capacity $capacity }
    $ns queue-limit $from $to $limit
    set monitor [$ns monitor-queue $from $to ""]
    set integral [new Integrator]
    $monitor set-bytes-integrator $integral
    set end $to
    if {$loss > 0} {
        set end [$ns node]
        $ns simplex-link $to $end $wide 0s DropTail
        set model [new ErrorModel]
        $model unit pkt
        $model set rate_ $loss
        $model ranvar [new RandomVariable/Uniform]
        $model drop-target [new Agent/Null]
        $ns lossmodel $model $to $end
    }
    lappend entry $from
    lappend exit $to
    lappend beyond $end
    lappend monitors $monitor
    lappend integrals $integral
}
proc way {from to delay target} {
    # Sends packets for `target` from one node to the next, over a wide link if there is none yet.
    global ns wide
    if {[catch {$ns link $from $to} link] || $link eq ""} {
        $ns simplex-link $from $to $wide ${delay}s DropTail
        set link [$ns link $from $to]
    }
    $from add-route [$target id] [$link head]
}
foreach route $routes {
    set path [lassign $route access_delay ack_delay]
    set sender [$ns node]
    set receiver [$ns node]
    set at $sender
    set delay $access_delay
    foreach link $path {
        way $at [lindex $entry $link] $delay $receiver
        way [lindex $entry $link] [lindex $exit $link] 0 $receiver
        set at [lindex $beyond $link]
        if {$at ne [lindex $exit $link]} { way [lindex $exit $link] $at 0 $receiver }
        set delay 0
    }
    way $at $receiver 0 $receiver
    way $receiver $sender $ack_delay $sender
    lappend hosts [list $sender $receiver]
}
foreach flow $flows {
    lassign $flow route start stop packets
    lassign [lindex $hosts $route] sender receiver
    set tcp [new Agent/$tcp_class]
    set sink [new Agent/$sink_class]
    eval $set_up
    $ns attach-agent $sender $tcp
    $ns attach-agent $receiver $sink
    $ns connect $tcp $sink
    lappend tcps $tcp
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp
    if {$packets >= 0} { $ns at $start "$ftp produce $packets" } else { $ns at $start "$ftp start" }
    if {$stop >= 0} { $ns at $stop "$ftp stop" }
}

for {set link 0} {$link < [llength $links]} {incr link} { set peak($link) 0 }

proc look {} {
    global ns monitors look peak
    set link 0
    foreach monitor $monitors {
        set waiting [$monitor set size_]
        if {$waiting > $peak($link)} { set peak($link) $waiting }
        incr link
    }
    $ns after $look look
}
proc sample {} {
    global ns tcps monitors integrals sampled period peak
    set row {}
    foreach tcp [lrange $tcps 0 [expr {$sampled - 1}]] {
        lappend row [$tcp set ndatapack_] [$tcp set ack_]
    }
    set link 0
    foreach monitor $monitors integral $integrals {
        $integral newpoint [$ns now] [$monitor set size_]
        lappend row $peak($link) [$integral set sum_] [$monitor set barrivals_] [$monitor set pdrops_] [$monitor set pmarks_]
        set peak($link) 0
        incr link
    }
    foreach tcp [lrange $tcps 0 [expr {$sampled - 1}]] { lappend row [$tcp set cwnd_] }
    puts "row $row"
    $ns after $period sample
}
$ns after $look look
$ns after $period sample
$ns at [expr {$duration + 0.5 * $look}] { exit 0 }
$ns run
