// A congestion controller in Go behind ecc_controller.h: the window grows by a packet an RTT, and a loss halves it.
//
//	go build -buildmode=c-shared -o aimd_go.so aimd.go
package main

/*
#include <stddef.h>
typedef struct { // ecc_controller_event_t, up to the last field that is read here
    double now, packet_size, rtt, srtt, min_rtt, in_flight, acked, delivered, recovering, recovered;
} event_t;
*/
import "C"
import "unsafe"

// The state of a flow: no pointers, and no memory of Go.
type flow struct{ window, threshold float64 }

//export ecc_controller_version
func ecc_controller_version() C.uint { return 1 }

//export ecc_controller_size
func ecc_controller_size() C.size_t { return C.size_t(unsafe.Sizeof(flow{})) }

//export ecc_controller_init
func ecc_controller_init(state unsafe.Pointer, p *C.double, event *C.event_t) {
	*(*flow)(state) = flow{10 * float64(event.packet_size), 1e300}
}

//export ecc_controller_on_ack
func ecc_controller_on_ack(state unsafe.Pointer, p *C.double, event *C.event_t) {
	self, acked := (*flow)(state), float64(event.acked)
	if event.recovering > 0 || event.recovered > 0 {
		return
	}
	if self.window >= self.threshold {
		acked *= float64(event.packet_size) / self.window
	}
	self.window += acked
}

//export ecc_controller_on_loss
func ecc_controller_on_loss(state unsafe.Pointer, p *C.double, event *C.event_t) {
	self := (*flow)(state)
	self.threshold = max(float64(event.in_flight)/2, 2*float64(event.packet_size))
	self.window = self.threshold
}

//export ecc_controller_window
func ecc_controller_window(state unsafe.Pointer, p *C.double, event *C.event_t) C.double {
	return C.double((*flow)(state).window)
}

func main() {}
