# XCP of ns-2 on a network that `ns2.py` describes: `ns xcp.tcl SCENARIO`, a file of Tcl that sets
#   links    {{capacity delay} ...}                       bit/s, s
#   routes   {{access_delay ack_delay link link ...} ...}  s, s; one pair of hosts each
#   flows    {{route start stop packets} ...}              stop and packets: -1 for none
#   sampled, duration, look, period   flows that are sampled; s; s between looks at queues; s, a multiple of look
#   packet_size, tick, rto, seed      bytes; s of the senders' clock; s, least timeout; of the routers' first ticks
# and prints a row a period: per sampled flow the data packets sent; per link the most bytes waiting at any look, the
# integral of the bytes waiting [byte s] and the bytes that arrived. The packet in service is not among those waiting.
source [lindex $argv 0]

Queue set limit_ 10000000
Agent/TCP set packetSize_ $packet_size
Agent/TCP set useHeaders_ false
Agent/TCP set window_ 10000000
Agent/TCP set tcpTick_ $tick
Agent/TCP set minrto_ $rto

set ns [new Simulator]
$ns rtproto Manual ;# ns-2 would look for the shortest way between any two of the hosts
ns-random $seed ;# of the routers' first ticks
set wide 1e13

foreach link $links {
    lassign $link capacity delay
    set from [$ns node]
    set to [$ns node]
    $ns simplex-link $from $to $capacity ${delay}s XCP
    [[$ns link $from $to] queue] set-link-capacity $capacity
    set monitor [$ns monitor-queue $from $to ""]
    set integral [new Integrator]
    $monitor set-bytes-integrator $integral
    lappend entry $from
    lappend exit $to
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
        set at [lindex $exit $link]
        set delay 0
    }
    way $at $receiver 0 $receiver
    way $receiver $sender $ack_delay $sender
    lappend hosts [list $sender $receiver]
}
foreach flow $flows {
    lassign $flow route start stop packets
    lassign [lindex $hosts $route] sender receiver
    set tcp [new Agent/TCP/Reno/XCP]
    set sink [new Agent/TCPSink/XCPSink]
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
    foreach tcp [lrange $tcps 0 [expr {$sampled - 1}]] { lappend row [$tcp set ndatapack_] }
    set link 0
    foreach monitor $monitors integral $integrals {
        $integral newpoint [$ns now] [$monitor set size_]
        lappend row $peak($link) [$integral set sum_] [$monitor set barrivals_]
        set peak($link) 0
        incr link
    }
    puts $row
    $ns after $period sample
}
$ns after $look look
$ns after $period sample
$ns at [expr {$duration + 0.5 * $look}] { exit 0 }
$ns run
