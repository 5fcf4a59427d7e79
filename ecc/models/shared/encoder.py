"""An encoder that adapts to the target rate of its controller, for hosts of real-time media, and frames at receivers.

Every 1/f seconds a frame is captured, and its packets are ready to be sent at once:

    target    rate of the controller at the frame before (a lag of one frame)
    size      target/(8 f) k (1 + noise u)    [bytes]
    k         K G/(G - 1 + K) for the first of every G frames (a key frame), G/(G - 1 + K) for the others; 1 if G = 0
    u         uniform, with mean 0 and standard deviation 1

A frame has a whole number of packets; the rest of its size is added to the next frame. Packets leave at `headroom`
times the target, or at that times the size of the last frame over the mean size, if it is larger, so that a key frame
leaves within the same time as other frames. While the sender still holds `RING - 1` frames, captured ones are skipped.
Between the times of each pair in `pauses` (after the start of the flow) no frame is captured.

A frame is complete when the last of its packets has arrived. Media are not retransmitted: a frame with a lost packet
never is. The receiver keeps capture and completion of its last `RING` complete frames; `ecc.results.frames` reads them.

With f = 0 packets leave evenly spaced, at the rate of the controller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ecc._support.arguments import shown
from ecc._support.quantity import PER_TIME, TIME
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.contract.parameters import check_number
from ecc.contract.protocol import Protocol
from ecc.laws.elementary import sqrt
from ecc.network.applications import frame_share

__all__ = [
    "RING",
    "EncodedMedia",
    "FrameHeader",
    "FrameState",
    "frame_bytes",
    "next_frame",
    "open_media",
    "packet_sent",
]

RING = 16  # frames that a sender can hold, and complete frames that a receiver keeps


@dataclass(frozen=True, kw_only=True)
class EncodedMedia(Protocol):
    """A host that sends the frames of an encoder.

    Parameters
    ----------
    frames : float, 1/s, >= 0
        Frames per second of the encoder; 0: packets are evenly spaced.
    key_every : float, frames, >= 0
        Distance of key frames; 0: no key frames.
    key_factor : float, > 0
        Size of a key frame over that of other frames.
    noise : float, >= 0, < 0.5
        Standard deviation of the size of a frame, relative to its mean.
    headroom : float, > 0
        Rate at which frames are sent, relative to the target.
    pauses : tuple of float, s
        Begin and end of each pause of the encoder, after the start of the flow, for example (40.0, 60.0). (0, 0): none.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    frames: float = 0.0
    key_every: float = 0.0
    key_factor: float = 1.0
    noise: float = 0.0
    headroom: float = 1.5
    pauses: tuple[float, ...] = (0.0, 0.0)

    dimensions = {"frames": PER_TIME, "pauses": TIME}

    def __post_init__(self) -> None:
        check_number(self, frames=0.0, key_every=0.0, key_factor=None, noise=0.0, headroom=None)
        if not self.noise < 0.5:
            raise ValueError(f"noise must be < 0.5, got {shown(self.noise)}")
        super().__post_init__()
        if len(self.pauses) % 2 != 0:
            raise ValueError(
                f"pauses must have an even number of times (begin, end, begin, ...), got {len(self.pauses)}"
            )
        for before, after in zip((0.0, *self.pauses), self.pauses, strict=False):
            if not after >= before:
                raise ValueError(f"pauses must be times >= 0 s that increase, got {shown(after)} after {before:g}")

    def link_hooks(self) -> dict[str, Hook]:
        """Return no hooks: routers do not know these hosts."""
        return {}


@dataclass
class FrameHeader:
    """Header fields of the packets of a frame."""

    number: int = 0  # packet number, from 1
    sent: float = 0.0  # time at which it left the sender [s]
    frame: int = 0  # number of its frame, from 1; 0 without frames
    first: int = 0  # number of the first packet of the frame
    last: int = 0  # number of the last packet of the frame
    captured: float = 0.0  # capture of the frame [s]


@dataclass
class FrameState:
    """State of an encoder and its sender, and of the receiver of its frames."""

    sent: int = 0  # packets sent
    began: float = 0.0  # start of the flow [s]
    target: float = 0.0  # rate for the next frame [bit/s]
    encoded: int = 0  # frames captured
    skipped: int = 0  # frames not encoded because the sender held too many
    sending: int = 0  # number of the frame that is being sent
    rest: float = 0.0  # bytes left over from the frames before
    last_of: tuple[int, ...] = (0,) * RING  # number of the last packet of the frames held
    captured_of: tuple[float, ...] = (0.0,) * RING  # their captures [s]
    receiving: int = 0  # receiver: number of the newest frame
    arrived: int = 0  # receiver: packets of that frame
    complete: int = 0  # receiver: complete frames
    captured: tuple[float, ...] = (0.0,) * RING  # receiver: captures of the last complete frames [s]
    completed: tuple[float, ...] = (0.0,) * RING  # receiver: their completions [s]
    frame: tuple[int, ...] = (0,) * RING  # receiver: their numbers


def frame_bytes(target: float, index: int, uniform: float, p: Params) -> float:
    """Return the size of a frame [bytes].

    `index` counts frames from 0, and `uniform` is in [0, 1).
    """
    size = target / (8.0 * p.frames)
    if p.key_every > 0.0:
        size = size * frame_share(p.key_every, p.key_factor)
        if index % int(p.key_every) == 0:
            size = size * p.key_factor
    return size * (1.0 + p.noise * sqrt(3.0) * (2.0 * uniform - 1.0))


def is_paused(age: float, p: Params) -> bool:
    """Return whether no frames are captured at an age of the flow [s]."""
    inside = False
    for k in range(len(p.pauses) // 2):
        if age >= p.pauses[2 * k] and age < p.pauses[2 * k + 1]:
            inside = True
    return inside


def open_media(flow: Any, rate: float, p: Params, env: FlowEnv) -> None:
    """Begin to send: with frames, or without them at a constant rate."""
    flow.began = env.now
    flow.target = rate
    if p.frames > 0.0:
        next_frame(flow, rate, p, env)
    else:
        env.rate = rate


def next_frame(flow: Any, rate: float, p: Params, env: FlowEnv) -> None:
    """Capture a frame, and set the timer for the next; `rate` is that of the controller now."""
    if not is_paused(env.now - flow.began, p):
        if flow.encoded - flow.sending >= RING - 1:
            flow.skipped += 1
        else:
            size = frame_bytes(flow.target, flow.encoded, env.random, p)
            total = max(flow.rest + size, 1.0 * env.packet_size)  # every frame has a packet
            packets = int(total / env.packet_size)
            flow.rest = total - packets * env.packet_size
            before = flow.last_of[flow.encoded % RING] if flow.encoded > 0 else flow.sent
            flow.encoded += 1
            flow.last_of[flow.encoded % RING] = before + packets
            flow.captured_of[flow.encoded % RING] = env.now
            larger = max(8.0 * size * p.frames / flow.target, 1.0)
            env.rate = p.headroom * flow.target * larger
    flow.target = rate
    env.timer = 1.0 / p.frames


def packet_sent(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Write the header of a packet; stop after the last packet of the frames that are ready."""
    flow.sent += 1
    header.number = flow.sent
    header.sent = env.now
    if p.frames > 0.0:
        while flow.sending < flow.encoded and (flow.sending == 0 or flow.last_of[flow.sending % RING] < flow.sent):
            flow.sending += 1
        header.frame = flow.sending
        header.captured = flow.captured_of[flow.sending % RING]
        header.last = flow.last_of[flow.sending % RING]
        header.first = flow.last_of[(flow.sending - 1) % RING] + 1 if flow.sending > 1 else 1
        if flow.last_of[flow.encoded % RING] <= flow.sent:
            env.rate = 0.0


def frame_received(flow: Any, header: Any, env: FlowEnv) -> None:
    """Count a packet of a frame at the receiver, and keep the frame if it is complete."""
    if header.frame == 0 or header.frame < flow.receiving:
        return
    if header.frame > flow.receiving:
        flow.receiving = header.frame
        flow.arrived = 0
    flow.arrived += 1
    if flow.arrived == header.last - header.first + 1:
        place = flow.complete % RING
        flow.captured[place] = header.captured
        flow.completed[place] = env.now
        flow.frame[place] = header.frame
        flow.complete += 1
