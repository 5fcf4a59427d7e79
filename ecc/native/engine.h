/*
 * The packet engine: links, flows and packets on an integer clock. It knows no protocol: protocols are hooks.
 *
 * What follows is exact. A second engine written from it must agree event by event and bit by bit.
 *
 * NUMBERS
 *   Times are integer picoseconds, sizes integer bytes. NEVER = 4e18 ps: a time at or beyond it does not come, and sums
 *   that reach it are NEVER. seconds(ps) = (double) ps * 1e-12. All floating point is IEEE double, in the order written,
 *   nothing fused.
 *   ps(s)        = floor(s * 1e12 + 0.5); NEVER if s * 1e12 + 0.5 >= 4e18.
 *   tx(size, r)  = floor((double) size * 8.0 / r * 1e12 + 0.5), at least 1; NEVER as above.
 *   Random numbers: mix(z) is the finalizer of SplitMix64, G = 0x9E3779B97F4A7C15, arithmetic modulo 2^64. Stream n starts
 *   at s = mix(seed ^ mix(n + G)); each number is s += G, then (mix(s) >> 11) * 2^-53. Router r has stream r, flow f has
 *   stream 2^32 + f. An entity that asked for them takes one number before each call of one of its own hooks.
 *   between(lo, hi) = lo + min(floor(u * (double) (hi - lo + 1)), hi - lo), u the next number of a stream.
 *
 * EVENTS, first to last at equal times; within one kind by entity, lower index first. An entity has at most one pending
 * event of a kind. "now" is the time of the event.
 *   0 DEPARTURE link  the last bit of the packet in service leaves the queue (only if on_departure or impairment)
 *   1 HOP       link  the first packet on the wire reaches the next link, or the receiver
 *   2 ACCESS    flow  the first packet on the access line reaches the first link (only if access_delay > 0)
 *   3 ACK       flow  the first ACK on its way reaches the sender
 *   4 SEND      flow  the pacer lets a packet go
 *   5 INTERVAL  router a tick of its clock
 *   6 START     flow
 *   7 STOP      flow  (only if stop >= 0)
 *   8 TIMER     flow
 *   9 TIMEOUT   flow  a look at the retransmission timer
 *  10 FLUSH     flow  the receiver waits no longer with its ACK (only if ack_every > 1)
 *   Each event is counted, hashed and, if asked for, traced as (time, kind, entity, value). Value, as found when the event
 *   begins: ACK: offset of the packet; HOP, ACCESS, DEPARTURE: offset of the packet; SEND: bytes sent so far;
 *   INTERVAL: queue; START, STOP, TIMER, TIMEOUT, FLUSH: bytes in flight. What is gone is traced too (never counted or
 *   hashed), with the offset as value, after the event in which it happens and before any other record: as kind 11 a drop at a
 *   link, 12 a loss on the wire of a link, 13 the loss of an ACK of a flow on its pure delay.
 *   The digest starts at 0; for each event
 *     w = time * 16 + kind + entity * 0xD1B54A32D192ED03;  h = (h ^ w) * 0x9E3779B97F4A7C15;  h ^= h >> 29  (mod 2^64).
 *   Sampling is no event: sample k = 1, 2, ... is taken at k * period, after all events of that instant. What is recorded of
 *   a flow's env is what a hook without a packet would see then; no random number is drawn (random = 0), and kind = 0.
 *   queue_mean is (double) a / (double) period, a the exact sum of queue * ps since the last sample. A histogram of a link
 *   counts by bin the time [ps] that the queue was in it, then the packets and ACKs that arrived to find it there (itself
 *   left out; also those dropped). bin(q) = q below 256, else (m - 7) * 128 + (q >> (m - 7)) where 2^m <= q < 2^(m + 1); the
 *   last bin takes what lies beyond it.
 *
 * LINKS run routers: hooks with a state, parameters, a clock and random numbers of their own. Entry l of the array of links
 * is link l and its first router, number l; the entries after the links are further routers, each at the link that its `at`
 * names (nothing else of a link is read there). "A hook of a link" below is that hook of each of its routers, called in
 * order of their numbers; queue_low, next_interval and the INTERVAL are each router's own.
 *   Before the first event, in order of the routers, now = 0: on_start; then the clock: the first INTERVAL at
 * first_interval, or, if that is negative, at ps(next_interval) (at least 1 ps) if next_interval > 0. next_interval keeps its
 * value between the hooks of a router; it is 0 before on_start.
 *   A packet arrives: (1) arrived += size on this link: the size of the packet + the flow's header_bytes, or the flow's
 *   ack_size for an ACK; (2) on_arrival, env.queue without the packet; (3) it is dropped if a router has set env.drop, or if
 *   buffer >= 0 and queue + size > buffer, or if buffer_packets > 0 and as many packets are in the queue: on_drop, and the
 *   packet is gone; (4) else queue += size, and its last bit leaves the queue at
 *   leaves = max(now, leaves of the packet before it) + tx(size, capacity).
 *   A link whose capacity changes has that of a change from its time on; env.capacity is that of now, or, if that is 0, the last
 *   that was not; leaves = serve(max(...), size): bits = (double) size * 8.0; then, in each stretch of one capacity c from t on, which ends at e
 *   (NEVER, if it is the last): if c > 0, wait = floor(bits / c * 1e12 + 0.5), at least 1; if t + wait <= e, that is it; else
 *   bits = max(bits - c * seconds(e - t), 0.0). With c = 0 nothing is served. NEVER, if there is no further stretch.
 *   At `leaves` the packet departs: queue -= size, queue_low = min(queue_low, queue), then on_departure (a DEPARTURE event),
 *   and the packet is on the wire until leaves + delay. Without on_departure and impairment this happens silently, before
 *   every event of that instant. Packets leave the wire in order, but see IMPAIRMENTS. There:
 *     - another link follows on this leg of the route: HOP; the packet arrives at it in the same event;
 *     - the receiver: HOP if the flow has on_receive, is followed, has a transport, or needs its receiver (see RECEIVERS). received += size; the packet
 *       becomes an ACK (kind 1); on_receive; then it, or a later one, arrives at the first reverse link, or reaches the sender
 *       ack_delay later (ACK). Without either, received += size happens silently and the ACK event is at
 *       leaves + delay + ack_delay;
 *     - the end of the reverse links: silent, the ACK event is at leaves + delay + ack_delay; HOP if the flow has an
 *       impairment or that last link reorders: then the ACK sets out on its pure delay.
 *   INTERVAL: the router's on_interval; its queue_low = queue; the next one at now + ps(next_interval), at least 1 ps, if
 *   next_interval > 0. A clock that is set 100 times in a row with ps(next_interval) = 0 stops the run.
 *
 * FLOWS count in bytes of data: sent, expected (all offsets below are settled), lost; in_flight = sent - expected,
 * delivered = expected - lost. A packet's offset is `sent` before it. owed = size - delivered - in_flight for a flow of
 * finite size (so lost bytes are owed again), else no limit. A flow is active from START until it stops.
 *   packet_size below is opening_size, if that is > 0, until the first ACK. Then it is packet_size, or, if
 *   packet_size_max > packet_size, between(packet_size, packet_size_max) from stream 2^33 + f: drawn before the first
 *   event and again in each EMIT (also while opening_size counts).
 *   rto = max(1 s, ps(3 * srtt)), doubled for each timeout since the last ACK, but to 64 s at most if it is below that.
 *   Before the first ACK srtt is here seconds(first): no answer can be back earlier. first is the sum of access_delay, of each
 *   link of the route tx(size, env.capacity) and delay, and of ack_delay; size is that of a hook without a packet plus
 *   header_bytes, or, on reverse links, ack_size; of spike_between and jitter_lo of each impairment on the way; and of ack_wait if
 *   ack_every > 1.
 *   START: active; on_start; GO.
 *   SEND: EMIT; GO.
 *   ACK: rtt = seconds(now - sent time); srtt = rtt the first time (the opening is over), then srtt += (rtt - srtt) / 8;
 *     min_rtt; heard = now.
 *     If front > expected (else all it says is known or had been given up): n = missing - known, known = missing; if n > 0:
 *     lost += n, expected += n, and on_loss (kind 0) if active; then acked = front - expected, expected = front.
 *     on_ack if active. If active and delivered >= size: the flow is complete and STOPS. GO.
 *   TIMER: on_timer; GO. An on_timer that sets its timer 100 times in a row with ps(timer) = 0 stops the run.
 *   TIMEOUT: nothing if in_flight = 0. deadline = heard + rto; if deadline > now: TIMEOUT again at the deadline. Else
 *     lost += in_flight, base = expected = sent, known = 0, heard = now, on_loss (kind 1) if active, GO.
 *   STOP: if active, it STOPS: no longer active; finish = now; SEND, TIMER and STOP are cancelled; on_stop. ACKs and
 *     timeouts still count what drains.
 *   GO, until nothing changes, if active: size = min(packet_size, owed). Nothing owed, or window > 0
 *     and in_flight + size > window (with a transport not if in_flight = 0: one packet may always be on its way, as RFC
 *     5681 has it), or
 *     window = 0 and rate = 0: no SEND is pending. Else, with rate > 0: SEND is pending at
 *     max(now, last + gap), where last is the time of the last EMIT and gap = tx(size of that packet + header_bytes, rate);
 *     before the first EMIT at now. Else (rate = 0, window > 0): EMIT, and again; but a GO that has sent 65536 packets ends
 *     with SEND pending at now, so that every event ends.
 *   EMIT: size = min(packet_size, owed); last = now; header all zero; on_send (in_flight without this packet); if
 *     in_flight = 0: heard = now; sent += size; a new size is drawn (see packet_size); if no TIMEOUT is pending: one at
 *     now + rto. The packet reaches the first link access_delay later (ACCESS), at once (in the same event) if that is 0.
 *
 * TRANSFERS are flows that come and go; the caller hands them over in the order of their starts. Transfer k (0, 1, ... as
 *   they are handed over) has a start, a stop, a size, delays, a receiver_window if that is > 0, and a template that says the rest. Its START comes after
 *   those of the flows of that instant, in the order of k. It takes the slot that was freed last, or, if none is free, the next new
 *   one; in slot s it is flow n_flows + s until it is over. Its record is a copy of its template's; its streams of random
 *   numbers are those of a flow n_flows + k, its number. It is over once it is not active and none of its packets and ACKs is in
 *   the network: at the end of ACK and STOP, or as soon as one is gone (after on_drop). Then lost += in_flight, expected = sent, a pending TIMEOUT is cancelled,
 *   its result is written, and its slot is free.
 *   A transfer may follow the one before it, of finite size: its start is then how long it waits. Once the other's
 *   received >= size, its START comes that much later, after those of that instant that do not follow, in the order of the
 *   slots of the others. Until then the other is not over; it may be at the end of that START. A transfer that is over
 *   has no follower any more: those that have not begun to wait never start.
 *
 * RECEIVERS find out what is missing, and each ACK says so: lost ACKs are no lost data. They keep next, front, missing and
 * holes; the sender keeps base and known: all 0 and none at first. A packet from offset on:
 *   if offset >= base >= next: next = base, missing = 0, no holes (the sender has given up what was before);
 *   a hole that ends at or before offset has been passed once more; one around offset misses size bytes less;
 *   if offset >= next: if offset > next, there is a hole from next to offset, passed once, all of it missing; and
 *   next = offset + size. (Else, outside of holes, the packet had been given up.)
 *   While the first hole misses nothing or has been passed `patience` times: missing += what it misses, and it is none.
 *   front = begin of the first hole, or next.
 *   patience is 1, or 3 if a link of the route reorders: so many packets from beyond a gap prove a loss.
 *   An ACK says front and missing as they are when it sets out. With ack_every > 1 a receiver keeps the packet, and the one
 *   kept before is gone; the last of ack_every becomes the ACK of all of them, or the one that is kept at FLUSH, ack_wait after
 *   the first of them.
 *   A flow needs its receiver if it has reverse links, an impairment, ack_every > 1, or a link that reorders on its route.
 *   (Else each ACK says front = offset + size, and that all gaps before are missing: the sender sees that by itself.)
 *
 * TRANSPORT. A flow with transport 1 (by cumulative ACKs: RFC 6582 with RFC 5681 and 3042) or 2 (SACK: RFC 6675 with RFC 2018) delivers a
 * stream of bytes in order and sends again what was lost. All above holds but for what follows. Offsets are places in the stream.
 *   The sender keeps una (all below it is acknowledged), top (all below it has been sent), gone (all below it that is neither
 *   acknowledged nor sacked is held for lost) and again (of this, what is below it has been sent again); recovering, recover,
 *   urgent, duplicates, before, left, partials, rescue; for SACK what ACKs said that the receiver holds beyond una: sacked(a, b)
 *   are the bytes of it from a to b. All are 0 at first. largest = max(packet_size, packet_size_max).
 *   sent counts all that is sent, lost what was sent again. So sent - lost = top, delivered = expected - lost = una, and sent -
 *   expected, the bytes in flight of a traced value, = top - una. received counts what the receiver hands on in order.
 *   Hooks see in_flight = max(0, (top - gone) - out + (again - una) - sacked(una, again)), out = sacked(gone, top) or, for
 *   type 1, left: what may still be in the network; but in on_loss (kind 0) before - una, (kind 1) top - una.
 *   The next packet, for GO and EMIT, is the first of these that there is; each is at most packet_size long:
 *     1. if urgent: from una on, to where sacked bytes begin or top;
 *     2. from the first byte at or after `again` that is not sacked, if that is below gone, to where sacked bytes begin or gone;
 *     3. new: from top on, min(packet_size, size - top), if receiver_window = 0 or it ends at or below una + receiver_window;
 *     4. SACK, if recovering: as 2, with the end of the highest sacked range in place of gone;
 *     5. SACK, if recovering, una > rescue and the byte before top is not sacked: the last bytes before top that are not.
 *   GO: in_flight is that which hooks see; an urgent packet does not heed the window, but rate and pace. A pending SEND is looked
 *     at again in each GO.
 *   EMIT: the kind that on_send sees is 1 for a packet sent again, 0 for new. Then: 3: top += size. Else lost += size, expected
 *     += size. 1, 2, 4: again = its end, but for type 1 if recovering; urgent = 0. 1, if recovering: rescue = its end.
 *     5: rescue = recover. If una was top, or, for SACK, if recovering, the kind is 1 and it begins below recover: the
 *     timer starts (RFC 6675 sec. 6; what is lost later does not keep it from expiring).
 *   ACK: first rttvar += (|srtt - rtt| - rttvar) / 4, with the old srtt; = rtt / 2 the first time. Each ACK measures: it answers one
 *     packet, whose sent time it has, as timestamps would. The ACK says ack and, for SACK, up to three ranges. size: of the packet
 *     that it answers.
 *     recovered = 0. acked = max(0, ack - una). If acked > 0: una = ack, gone and again are at least una, urgent = 0, duplicates = 0,
 *     the timeouts are forgotten. SACK: the ranges, beyond una, are sacked; gone = max(gone, begin of the highest sacked range that
 *     with those above it makes three or more than 2 * largest bytes).
 *     If recovering: una >= recover ends it: recovering = 0, recovered = 1, left = 0. Else, for type 1: if acked > 0, left =
 *       max(0, left - acked + (size if acked >= size)), urgent = 1, partials += 1; if ack = una before, left += size.
 *     If not: acked > 0 makes left = 0. If una >= recover, and, for type 1, acked = 0, ack = una and top > una, or, for SACK, bytes
 *       were sacked that had not been: a duplicate: duplicates += 1; if it is the first, before = top; type 1: left += size. At the
 *       third, or, for SACK, if gone > una: recovering = 1, recover = top, again = una, urgent = 1, partials = 0, on_loss (kind 0).
 *     If acked > 0, or a recovery begins: the timer starts, but not if this left type 1 recovering with partials > 1 (RFC 6582,
 *     the impatient variant). Then on_ack, with acked, recovering, recovered; it is complete if una >= size.
 *   rto = max(least_rto, ps(srtt + max(seconds(rto_granularity), 4 * rttvar))), before the first ACK max(least_rto, 1 s,
 *     ps(3 * seconds(first))), as a handshake would leave it (RFC 6298 (2.2)); doubled as above.
 *   The timer starts: heard = now; TIMEOUT is pending at now + rto, if it was not pending before that.
 *   TIMEOUT: nothing if una = top or the flow is not active. deadline as above. Else one timeout more; recovering = 0; recover =
 *     top, + 1 for type 1 (only what is acknowledged beyond it makes duplicates count); gone = top, again = una; duplicates = left =
 *     0; nothing is sacked; urgent = 1; on_loss (kind 1); the timer starts; GO.
 *   The receiver keeps next, what it holds beyond it, as ranges that do not touch, and up to three places. A packet from a to b: what is below next is known. If a <= next < b: next = b, and on to the end of what is held from
 *   there. If a > next: it is held, and a becomes the first place. Places go that are below next, that are in the range
 *   of one before, and that are more than three. The ACK says ack = next and, for SACK, the ranges in which the places are, in
 *   their order. If ack_every > 1, a was next and nothing was held, it may be kept as above; else the ACK sets out at once, and a
 *   packet that is kept is gone.
 *
 * IMPAIRMENTS act on packets that set out on the wire of a link (at DEPARTURE, after the hooks: they have used its capacity),
 * or, of a flow, on ACKs that set out on their pure delay. Random numbers: stream 2^34 + l of a link, 2^35 + f of a flow. A
 * packet that sets out now:
 *   1. If the loss of its kind is > 0, a number is drawn, and if it is below the loss the packet is gone. No hook hears of it.
 *   2. out = now. If spike_every_hi > 0, it passes a server that works first in, first out: free = out = max(now, free) +
 *      spike_between, but for every n-th packet, + between(spike_lo, spike_hi); n = between(spike_every_lo, spike_every_hi)
 *      is drawn before the first event and anew after each spike.
 *   3. out += delay; if jitter_hi > 0, out += between(jitter_lo, jitter_hi).
 *   4. If it does not reorder, out = max(out, out of the packet before). It gets to the end of the way at `out`; at equal times
 *      first the one that set out first.
 *
 * HOOKS get state, header, params, env; header points header_offset bytes of the router or flow into the packet's header, so
 * that each protocol has a region of its own, zero in packets of other protocols unless its routers write there. With a
 * packet, packet_size is its size on this link, or, for flows, its size as data (also once it is an ACK). Without a packet
 * (on_start, on_interval, on_loss, on_timer, on_stop) the header is a scratch record of zeros; packet_size is then 0 for
 * links, and for flows the largest that may come: opening_size where that counts, else packet_size_max if sizes are drawn,
 * else packet_size; kind is 0 and flow -1 for links. All of env is written before each call: drop = 0, timer = -1, rate and
 * window as the flow has them. After a hook of
 * a flow other than on_receive and on_stop: rate and window are taken over (finite, >= 0); timer >= 0 sets TIMER at
 * now + ps(timer), at least 1 ps, of a flow that has on_timer; a negative timer leaves a pending TIMER as it is. Everything
 * else in env is ignored.
 * A missing hook is not called. A hook that returns a code other than 0 stops the run, as do bad values.
 */
#ifndef ECC_ENGINE_H
#define ECC_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ECC_MUST_CHECK __attribute__((warn_unused_result))
#else
#define ECC_MUST_CHECK
#endif

/* cdef: begin */

typedef int64_t ecc_ps_t;
typedef int64_t ecc_bytes_t;

#define ECC_NEVER 4000000000000000000
#define ECC_N_BINS 4352 /* of queues up to 2^40 bytes */

/* What a hook of a link sees; it may write the fields marked w. */
typedef struct {
    double now;           /* s */
    double capacity;      /* bit/s */
    int64_t buffer;       /* bytes, -1 unlimited */
    int64_t queue;        /* bytes, the packet in service included */
    int64_t queue_low;    /* bytes, lowest since the last on_interval */
    int64_t packet_size;  /* bytes */
    int64_t kind;         /* 0 data, 1 ACK */
    int64_t flow;         /* index */
    int64_t link;         /* index */
    int64_t flow_queue;   /* bytes of this flow and kind in the queue, if asked for, else 0 */
    double random;        /* uniform [0, 1), if asked for, else 0 */
    int64_t drop;         /* w: non-zero drops the packet; on_arrival only */
    double next_interval; /* w: s until this router's next on_interval, <= 0: none */
} ecc_link_env_t;

/* What a hook of a flow sees; it may write the fields marked w. */
typedef struct {
    double now;           /* s */
    int64_t packet_size;  /* bytes */
    double rtt;           /* s, last sample, 0 before any */
    double srtt;          /* s */
    double min_rtt;       /* s */
    int64_t in_flight;    /* bytes */
    int64_t delivered;    /* bytes, ACKed */
    int64_t lost;         /* bytes */
    double rate;          /* w: bit/s */
    double window;        /* w: bytes, 0 = not window-clocked */
    double timer;         /* w: s from now until on_timer, < 0: none */
    int64_t kind;         /* of a loss: 0 gap in the ACKs, 1 timeout; on_send: 1 data sent again */
    int64_t flow;         /* index */
    double random;        /* uniform [0, 1), if asked for, else 0 */
    int64_t size;         /* bytes to deliver, -1 endless */
    int64_t header_bytes; /* that a packet is longer on links, and for the pacer, than its data */
    int64_t acked;        /* bytes that this ACK acknowledges and none did before; on_ack only, else 0 */
    int64_t recovering;   /* 1: a transport is in fast recovery */
    int64_t recovered;    /* 1: this ACK has ended it; on_ack only */
} ecc_flow_env_t;

/* 0: fine; anything else: the hook failed and the run stops. */
typedef int32_t (*ecc_hook_t)(void *state, void *header, void *params, void *env);

/* A link and its router as the caller describes them; the hooks last, in the order in which a report numbers them. */
typedef struct {
    double capacity;          /* bit/s */
    ecc_ps_t delay;           /* of the wire */
    ecc_bytes_t buffer;       /* -1 unlimited */
    int64_t buffer_packets;   /* packets, 0 unlimited */
    int64_t n_changes;        /* of the capacity: the next n_changes of `changes` */
    int64_t impairment;       /* number of that of the wire, from 1; 0: none */
    ecc_ps_t first_interval;  /* first tick; negative: as on_start says */
    int64_t wants_flow_queue; /* non-zero: env.flow_queue is kept */
    int64_t wants_random;     /* non-zero: env.random is drawn */
    int64_t at;               /* of a further router: the link it is at */
    int64_t header_offset;    /* bytes from the start of a header to what the hooks see, a multiple of 8 */
    void *state;
    void *params;
    ecc_hook_t on_start;
    ecc_hook_t on_arrival;
    ecc_hook_t on_departure;
    ecc_hook_t on_drop;
    ecc_hook_t on_interval;
} ecc_link_t;

/* A flow as the caller describes it; the hooks last. */
typedef struct {
    double rate;   /* before on_start, bit/s */
    double window; /* before on_start, bytes */
    ecc_ps_t start;
    ecc_ps_t stop;    /* -1 never */
    ecc_bytes_t size; /* -1 unlimited */
    ecc_bytes_t packet_size;
    ecc_bytes_t packet_size_max; /* sizes are drawn up to this; 0: all are packet_size */
    ecc_bytes_t opening_size;    /* of packets until the first ACK; 0: packet_size */
    ecc_bytes_t ack_size;        /* on reverse links */
    ecc_bytes_t header_bytes; /* that a packet is longer on links, and for the pacer, than its data; less than 2^16 */
    ecc_ps_t access_delay;    /* before the first link */
    ecc_ps_t ack_delay;       /* after the last reverse link, or after the receiver */
    int64_t impairment;       /* number of that of ack_delay, from 1; 0: none */
    int64_t ack_every;        /* packets for which the receiver sends one ACK; 0 and 1: one for each ... */
    ecc_ps_t ack_wait;        /* ... but at the latest so long after the first of them */
    int64_t transport;        /* 0: none, what is lost stays lost; 1: by cumulative ACKs; 2: by SACK */
    ecc_bytes_t receiver_window; /* of a transport; 0: no limit */
    ecc_ps_t least_rto;          /* of a transport */
    ecc_ps_t rto_granularity;    /* of a transport */
    int64_t n_forward;           /* links of the route: the next n_forward of `routes` ... */
    int64_t n_reverse;           /* ... and the n_reverse after those carry the ACKs */
    int64_t bottleneck;          /* offset of an int64 in state that samples show, -1 none */
    int64_t wants_random;        /* non-zero: env.random is drawn */
    int64_t header_offset;       /* as of a router */
    int64_t followed;            /* of a template, non-zero: others may follow its transfers */
    void *state;
    void *params;
    ecc_hook_t on_start;
    ecc_hook_t on_send;
    ecc_hook_t on_receive;
    ecc_hook_t on_ack;
    ecc_hook_t on_loss;
    ecc_hook_t on_timer;
    ecc_hook_t on_stop;
} ecc_flow_t;

/* A transfer as the caller describes it; its template, an ecc_flow_t, says the rest. */
typedef struct {
    ecc_ps_t start;
    ecc_ps_t stop;    /* -1 never */
    ecc_bytes_t size; /* -1 unlimited */
    ecc_ps_t access_delay;
    ecc_ps_t ack_delay;
    int64_t kind;                /* index of the template */
    ecc_bytes_t receiver_window; /* of a transport; 0: that of the template */
    int64_t follows; /* non-zero: the transfer before it; start is how long it waits once that has been received */
} ecc_transfer_t;

/* From a time on a link has another capacity. */
typedef struct {
    ecc_ps_t time;
    double capacity; /* bit/s, may be 0 */
} ecc_change_t;

/* What a way does to the packets on it. All zero: nothing. */
typedef struct {
    double data_loss;       /* probability */
    double ack_loss;        /* probability */
    int64_t spike_every_lo; /* packets from spike to spike ... */
    int64_t spike_every_hi; /* ... 0: no spikes */
    ecc_ps_t spike_lo;
    ecc_ps_t spike_hi;
    ecc_ps_t spike_between; /* that the other packets take */
    ecc_ps_t jitter_lo;
    ecc_ps_t jitter_hi; /* 0: no jitter */
    int64_t reorders;   /* non-zero: packets may overtake each other */
} ecc_impairment_t;

/* Eight bytes that samples show as they are: of a record, or, if `record` is NULL, of what hooks of a flow see. */
typedef struct {
    const void *record; /* of a link or a flow */
    int64_t offset;     /* bytes from there, or into ecc_flow_env_t; a multiple of 8 */
    int64_t flow;       /* index, without a record */
} ecc_recorded_t;

/* One row a sample: of the first n_flows flows, and of all links. Counts are totals since the start. */
typedef struct {
    ecc_ps_t period;
    int64_t n_samples;
    int64_t n_flows;
    int64_t *sent;       /* (sample, flow) bytes */
    int64_t *received;   /* (sample, flow) bytes of data at the receiver */
    int64_t *bottleneck; /* (sample, flow), -1 before START */
    int64_t *queue;      /* (sample, link) bytes */
    int64_t *queue_peak; /* (sample, link) bytes, highest since the last sample */
    double *queue_mean;  /* (sample, link) bytes, average over the time since the last sample; NULL: not asked for */
    int64_t *arrived;    /* (sample, link) bytes, dropped ones included */
    int64_t *dropped;    /* (sample, link) packets */
    int64_t n_recorded;  /* entries of `recorded`, which belong to the caller */
    const ecc_recorded_t *recorded;
    int64_t *words; /* (sample, recorded) */
} ecc_samples_t;

typedef struct {
    ecc_ps_t time;
    int64_t kind;
    int64_t entity;
    int64_t value;
} ecc_event_t;

/* resize(context, block, size): as realloc; size 0 releases. NULL on failure, and the block is as it was. */
typedef struct {
    void *(*resize)(void *context, void *block, size_t size);
    void *context;
} ecc_allocator_t;

typedef struct {
    uint64_t seed;
    int64_t n_links;
    int64_t n_further; /* entries of `links` after those of the links: further routers */
    int64_t n_flows;
    int64_t n_templates; /* 0: no transfers will come */
    int64_t n_routes;    /* entries of `routes`: the sum of all n_forward and n_reverse */
    int64_t header_size; /* bytes, a multiple of 8 */
    int64_t n_trace;     /* room in `trace` */
    int64_t record_size; /* bytes at `state` of every template, a multiple of 8 */
    int64_t most_bytes;  /* of memory, all in all; 0: no limit */
    const ecc_link_t *links;
    const ecc_flow_t *flows;
    const ecc_flow_t *templates; /* of transfers; what a transfer has itself is ignored here */
    const int64_t *routes;       /* of the flows, then of the templates */
    int64_t n_changes;           /* entries of `changes`: the sum of all n_changes of links */
    const ecc_change_t *changes;
    int64_t n_impairments;
    const ecc_impairment_t *impairments;
    ecc_event_t *trace;               /* or NULL */
    ecc_samples_t samples;            /* n_samples = 0: none */
    int64_t *histogram;               /* (link, 2, ECC_N_BINS): time, then arrivals, by queue; or NULL */
    const ecc_allocator_t *allocator; /* or NULL */
} ecc_config_t;

/* Why a call failed, and where. */
typedef struct {
    int64_t code;
    int64_t of;    /* 0 nobody, 1 a link, 2 a flow, 3 a transfer */
    int64_t index; /* of the link (routers count on), the flow (templates count on); number of the transfer */
    int64_t hook;  /* number of the hook among those of a link or flow, -1 none */
    ecc_ps_t time;
    double value;   /* the offending value, or what the hook returned */
    int64_t failed; /* non-zero: `value` is what the hook returned */
} ecc_report_t;

enum ecc_stop {
    ECC_STOP_NOT_YET,    /* never advanced */
    ECC_STOP_UNTIL,      /* the time asked for was reached */
    ECC_STOP_MAX_EVENTS, /* the number of events asked for was reached */
    ECC_STOP_IDLE,       /* the time was reached and nothing is left to happen */
    ECC_STOP_TRANSFERS,  /* the next transfers must be handed over, or their end announced */
    ECC_STOP_ERROR       /* see the report */
};

typedef struct {
    ecc_ps_t now;
    int64_t events;
    int64_t data_packets; /* that reached their receivers */
    int64_t in_flight;    /* packets and ACKs in the network */
    int64_t samples;      /* rows filled */
    int64_t trace;        /* events seen by the trace; those beyond its room are not in it */
    int64_t transfers;    /* that have started */
    int64_t alive;        /* transfers that are not over */
    int64_t waiting;      /* transfers that have not started */
    int64_t over;         /* transfers whose results were not taken yet */
    int64_t bytes;        /* of memory held */
    int64_t peak_bytes;
    uint64_t digest;
    int64_t stop; /* enum ecc_stop */
} ecc_stats_t;

typedef struct {
    ecc_ps_t finish;       /* when it stopped or completed, -1 not yet */
    int64_t completed;     /* 1: all of its size was ACKed */
    int64_t sent;          /* bytes, retransmitted ones included */
    int64_t received;      /* bytes at the receiver */
    int64_t delivered;     /* bytes ACKed */
    int64_t lost;          /* bytes */
    int64_t retransmitted; /* bytes sent again; without transport, beyond the size of a flow of finite size */
    int64_t acks_lost;     /* on their pure delay */
    double rate;
    double window;
    double srtt;
    double min_rtt;    /* s, 0 before any */
    ecc_ps_t idle_rtt; /* delays of the lines, without queues and transmission */
} ecc_flow_result_t;

typedef struct {
    int64_t number;
    int64_t kind;
    ecc_ps_t start;
    ecc_bytes_t size;
    ecc_flow_result_t flow;
} ecc_transfer_result_t;

typedef struct {
    int64_t arrived;  /* bytes, dropped ones included */
    int64_t departed; /* bytes */
    int64_t dropped;  /* packets */
    int64_t dropped_bytes;
    int64_t queue; /* bytes */
    int64_t lost;  /* packets, of those departed */
    int64_t lost_bytes;
} ecc_link_result_t;

typedef struct ecc_engine ecc_engine_t;

/*
 * A new engine, NULL on failure. Arrays of the configuration are copied, except records, samples and trace. Engines share
 * nothing: each may be in a thread of its own. One engine is for one thread at a time, also where it is only read.
 */
ECC_MUST_CHECK int ecc_engine_new(const ecc_config_t *config, ecc_engine_t **engine, ecc_report_t *report);
void ecc_engine_free(ecc_engine_t *self);

/*
 * Runs all events up to and at `until`, at most max_events of them (< 0: no limit), where each packet that GO sends counts
 * as an event too: so much work a call is bounded, hooks aside. Slices never change the result. A time before now is now. A
 * debug build ends each call with ecc_engine_verify. 0 or a negative code; after a failure every further call returns that
 * code.
 */
ECC_MUST_CHECK int ecc_engine_advance(ecc_engine_t *self, ecc_ps_t until, int64_t max_events);

/*
 * Ends a call of ecc_engine_advance in another thread after the event that it is at, as if max_events were reached. Alone of
 * all functions it may be called meanwhile; a call may be missed, and can be repeated.
 */
void ecc_engine_stop(ecc_engine_t *self);

/*
 * Hands over n transfers, which are copied: none may start before the present or before the one before it. more = 0: they
 * are the last; those that follow come in the same call. An engine with templates stops (ECC_STOP_TRANSFERS) whenever it has none left and more may come. 0 or a
 * code, and then none was taken; the report has the number of the one that is wrong.
 */
ECC_MUST_CHECK int ecc_engine_add(ecc_engine_t *self, const ecc_transfer_t *transfers, int64_t n, int64_t more);

/* Takes the results of up to n transfers that are over, in the order of their ends; how many these were. */
int64_t ecc_engine_take_over(ecc_engine_t *self, ecc_transfer_result_t *results, int64_t n);

/* Results so far of the transfers that are not over, by slot: as many as stats.alive. */
void ecc_engine_alive(ecc_engine_t *self, ecc_transfer_result_t *results);

void ecc_engine_report(const ecc_engine_t *self, ecc_report_t *report);
void ecc_engine_stats(ecc_engine_t *self, ecc_stats_t *stats);
void ecc_engine_flow_results(ecc_engine_t *self, ecc_flow_result_t *results);
void ecc_engine_link_results(ecc_engine_t *self, ecc_link_result_t *results);

/*
 * Writes all of the engine's state into a buffer that is large enough; NULL: writes nothing. How many bytes, or a code.
 * Records, samples, trace and histogram, which belong to the caller, are not in it.
 */
int64_t ecc_engine_save(ecc_engine_t *self, unsigned char *buffer);

/*
 * Gives a new engine the state of another one of the same configuration: it goes on as that one would have. After a failure
 * the engine is of no use.
 */
ECC_MUST_CHECK int ecc_engine_load(ecc_engine_t *self, const unsigned char *buffer, int64_t size);

/* Checks every invariant: 0 or the code of a broken one. */
ECC_MUST_CHECK int ecc_engine_verify(const ecc_engine_t *self);

/* Text of a code: what is wrong and what is allowed. */
const char *ecc_engine_error_text(int code);

/* cdef: end */

#endif
