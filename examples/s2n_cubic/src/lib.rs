//! CUBIC of the crate s2n-quic-core behind `ecc_controller.h`: a QUIC stack's controller in the packet engine.
//!
//!     cargo build --release          # target/release/libs2n_cubic.so
//!
//! The crate's controller is a value without pointers, so that it is the state of a flow. It keeps its own count of bytes
//! in flight, which follows the host's after each event. The host paces, because the crate's pacer answers with times.

use core::ffi::c_void;
use core::mem::size_of;
use core::time::Duration;
use num_rational::Ratio;
use s2n_quic_core::event::builder::{BbrState, SlowStartExitCause};
use s2n_quic_core::packet::number::PacketNumberSpace;
use s2n_quic_core::random;
use s2n_quic_core::recovery::bandwidth::{Bandwidth, RateSample};
use s2n_quic_core::recovery::congestion_controller::Publisher;
use s2n_quic_core::recovery::{CongestionController, CubicCongestionController, RttEstimator};
use s2n_quic_core::time::Timestamp;

/// `ecc_controller_event_t`; the fields that follow `total_lost` are not read here.
#[repr(C)]
pub struct Event {
    now: f64,
    packet_size: f64,
    rtt: f64,
    srtt: f64,
    min_rtt: f64,
    in_flight: f64,
    acked: f64,
    delivered: f64,
    recovering: f64,
    recovered: f64,
    undone: f64,
    kind: f64,
    marked: f64,
    ece: f64,
    size: f64,
    random: f64,
    newly_acked: f64,
    newly_lost: f64,
    rate: f64,
    interval: f64,
    sample_delivered: f64,
    sample_lost: f64,
    tx_in_flight: f64,
    app_limited: f64,
}

struct Flow {
    controller: CubicCongestionController,
    rtt: RttEstimator,
}

/// Events of the controller that nobody reads.
struct Silent;

impl Publisher for Silent {
    fn on_slow_start_exited(&mut self, _: SlowStartExitCause, _: u32) {}
    fn on_delivery_rate_sampled(&mut self, _: RateSample) {}
    fn on_pacing_rate_updated(&mut self, _: Bandwidth, _: u32, _: Ratio<u64>) {}
    fn on_bbr_state_changed(&mut self, _: BbrState) {}
}

/// CUBIC draws no random number.
struct Nothing;

impl random::Generator for Nothing {
    fn public_random_fill(&mut self, dest: &mut [u8]) {
        dest.fill(0);
    }
    fn private_random_fill(&mut self, dest: &mut [u8]) {
        dest.fill(0);
    }
}

/// The crate has no time 0, so that its clock is a second ahead.
fn timestamp(seconds: f64) -> Timestamp {
    unsafe { Timestamp::from_duration(Duration::from_secs_f64(1.0 + seconds.max(0.0))) }
}

unsafe fn flow<'a>(state: *mut c_void) -> &'a mut Flow {
    &mut *state.cast::<Flow>()
}

/// The host also takes bytes out of flight that the controller is not told of, such as those lost after the first ones.
fn follow(controller: &mut CubicCongestionController, event: &Event) {
    let excess = f64::from(controller.bytes_in_flight()) - event.in_flight;
    if excess >= 1.0 {
        controller.on_packet_discarded(excess as usize, &mut Silent);
    }
}

#[no_mangle]
pub extern "C" fn ecc_controller_version() -> u32 {
    1
}

#[no_mangle]
pub extern "C" fn ecc_controller_size() -> usize {
    size_of::<Flow>()
}

/// # Safety
/// `state` has `ecc_controller_size` bytes, and is aligned to 8.
#[no_mangle]
pub unsafe extern "C" fn ecc_controller_init(state: *mut c_void, _: *const f64, event: &Event) {
    state.cast::<Flow>().write(Flow {
        controller: CubicCongestionController::new(event.packet_size as u16, Default::default()),
        rtt: RttEstimator::new(Duration::from_millis(333)),
    });
}

/// # Safety
/// `state` was written by `ecc_controller_init`.
#[no_mangle]
pub unsafe extern "C" fn ecc_controller_on_send(state: *mut c_void, _: *const f64, event: &Event) {
    let Flow { controller, rtt } = flow(state);
    let limited = Some(event.app_limited > 0.0);
    controller.on_packet_sent(timestamp(event.now), event.packet_size as usize, limited, rtt, &mut Silent);
}

/// # Safety
/// `state` was written by `ecc_controller_init`.
#[no_mangle]
pub unsafe extern "C" fn ecc_controller_on_ack(state: *mut c_void, _: *const f64, event: &Event) {
    let Flow { controller, rtt } = flow(state);
    let (now, sent) = (timestamp(event.now), timestamp(event.now - event.rtt));
    if event.newly_acked > 0.0 {
        rtt.update_rtt(
            Duration::ZERO,
            Duration::from_secs_f64(event.rtt),
            now,
            true,
            PacketNumberSpace::ApplicationData,
        );
        controller.on_rtt_update(sent, now, rtt, &mut Silent);
        let acked = event.newly_acked.min(f64::from(controller.bytes_in_flight())) as usize;
        controller.on_ack(sent, acked, (), rtt, &mut Nothing, now, &mut Silent);
    }
    if event.marked > 0.0 {
        controller.on_explicit_congestion((event.marked / event.packet_size).ceil() as u64, now, &mut Silent);
    }
    follow(controller, event);
}

/// # Safety
/// `state` was written by `ecc_controller_init`.
#[no_mangle]
pub unsafe extern "C" fn ecc_controller_on_loss(state: *mut c_void, _: *const f64, event: &Event) {
    let Flow { controller, .. } = flow(state);
    let lost = event.packet_size.min(f64::from(controller.bytes_in_flight())) as u32;
    let persistent = event.kind > 0.0;
    if lost > 0 {
        controller.on_packet_lost(lost, (), persistent, true, &mut Nothing, timestamp(event.now), &mut Silent);
    }
    follow(controller, event);
}

/// # Safety
/// `state` was written by `ecc_controller_init`.
#[no_mangle]
pub unsafe extern "C" fn ecc_controller_window(state: *mut c_void, _: *const f64, _: &Event) -> f64 {
    f64::from(flow(state).controller.congestion_window())
}
