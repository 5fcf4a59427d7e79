"""Small protocols, each with a fault that an engine refuses or `ecc check` finds; the tests have the right results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor

from ecc.contract.states import State
from ecc.errors import LinearizationError
from ecc.models import CUBIC, DCTCP, FAST, PIQIRCP, QIRCP, NewReno
from ecc.models.shared import windows
from ecc.models.shared.windows import EndToEndProtocol, WindowProtocol
from ecc.queues.discipline import QueueDiscipline


class Halving(DCTCP):
    """Not faulty: the inherited hooks call the new law."""

    @staticmethod
    def mark_response_law(w, alpha, s):
        return max(0.5 * w, 2.0 * s)


class FasterGrowth(DCTCP):
    """Its packets grow as DCTCP's: the hooks do not call `source_law`."""

    @staticmethod
    def source_law(w, s):
        return w + 2.0 * s


class HalvingByBytes(DCTCP):
    """8000 is a number of bits in a fluid run, and would be a number of bytes in a packet run."""

    @staticmethod
    def mark_response_law(w):
        return w - 8000.0


class HalvingByShare(DCTCP):
    """The hooks of DCTCP do not have `marked` where they call the law."""

    @staticmethod
    def mark_response_law(w, marked):
        return w * (1.0 - 0.5 * marked)


class WithoutSlowStart(NewReno):
    """Its packets still have slow start."""

    slow_start_law = None


class FurtherState(CUBIC):
    """Its packets do not keep the state."""

    @property
    def states(self):
        return super().states | {"more": State(None, "rtt")}


class StampingAtArrival(PIQIRCP):
    """Its packets are stamped by the inherited hooks."""

    combine = "sum"


def grow(flow, header, p, env):
    if windows.opens(flow, env):
        if windows.in_slow_start(flow, env):
            windows.slow_start(flow, p, env)
        else:
            env.window += env.packet_size * env.acked / env.window


def halve(flow, header, p, env):
    window = 0.5 * windows.on_the_way(env)
    if env.kind == 0:
        windows.cut(flow, window, env)
    else:
        windows.time_out(flow, window, env)


@dataclass(frozen=True, kw_only=True)
class FromScratch(EndToEndProtocol):
    """Not faulty: a loss-based host written as documented, which responds to marks if `ecn` is set."""

    @staticmethod
    def router_law(loss):
        return loss

    @staticmethod
    def source_law(w, s):
        return w + s

    def flow_hooks(self):
        return {"on_start": windows.flow_on_start, "on_ack": grow, "on_loss": halve}


@dataclass(frozen=True, kw_only=True)
class DeafToMarks(WindowProtocol):
    """Its packets can be marked, and no hook reads marks."""

    ecn_echo = "accurate"

    def flow_hooks(self):
        return {"on_start": windows.flow_on_start, "on_ack": grow, "on_loss": halve}


@dataclass(frozen=True, kw_only=True)
class Negative(FromScratch):
    """Its window falls below 0."""

    @staticmethod
    def source_law(w, s):
        return w - s


@dataclass(frozen=True, kw_only=True)
class Westwood(FromScratch):
    """Not faulty: a state with the argument `w_rtt`, the share of its window in force when the ACKed data was sent."""

    @property
    def states(self):
        return {"delivered": State(lambda w_rtt, D: w_rtt / D, "rtt", unit="bit/s")}

    @staticmethod
    def loss_response_law(w, delivered, s):
        return max(0.05 * delivered, 2.0 * s)


@dataclass(frozen=True, kw_only=True)
class WithoutClock(FromScratch):
    """`T` is the parameter `interval`, which it does not have."""

    @staticmethod
    def source_law(w, s, T):
        return w + s * T


@dataclass(frozen=True, kw_only=True)
class SinceALoss(FromScratch):
    """`since` is the time since a decrease by `decrease_law`, which it does not have."""

    @staticmethod
    def source_law(w, s, since):
        return w + s * min(since, 10.0)


@dataclass(frozen=True, kw_only=True)
class BooleanState(FromScratch):
    """A law of a state that converts a comparison to a number."""

    @property
    def states(self):
        return {"busy": State(lambda w, s: float(w > 4.0 * s), "rtt")}


@dataclass(frozen=True)
class Occupied(QueueDiscipline):
    """Not faulty as fluid: a discipline with a law, and without hooks."""

    @property
    def probability_law(self):
        return lambda q: min(0.001 * q, 1.0)


# ---- faults that `ecc check` finds by comparison -----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Aimd(FromScratch):
    """Not faulty: the additive increase and halving of `FromScratch`, with its response to losses as a law."""

    @staticmethod
    def loss_response_law(w, s):
        return max(0.5 * w, 2.0 * s)

    def flow_hooks(self):
        return {"on_start": windows.flow_on_start, "on_ack": grow, "on_loss": halve}


@dataclass(frozen=True, kw_only=True)
class ForgottenWindow(Aimd):
    """F1: as fluid, the window of an RTT ago is 0, and the window after a loss with it; packets halve the window."""

    @staticmethod
    def loss_response_law(w, s):
        return max(0.5 * (0.0 * w), 2.0 * s)

    def flow_hooks(self):
        return {"on_start": windows.flow_on_start, "on_ack": grow, "on_loss": halve}  # they call no law


@dataclass(frozen=True, kw_only=True)
class IgnoringMarks(Aimd):
    """F2: hooks read marks and do nothing, and the laws respond to them."""

    def flow_hooks(self):
        return super().flow_hooks() | {"on_ack": grow_without_marks}


def grow_without_marks(flow, header, p, env):
    if env.marked < 0:
        env.window = 0.5 * env.window
    grow(flow, header, p, env)


class Unbalanced(QIRCP):
    """Its equilibrium is a rate that its laws leave."""

    def equilibrium(self, network, assignment=None):
        point = super().equilibrium(network, assignment)
        return replace(point, rates=0.8 * point.rates, fair_rate=0.8 * point.fair_rate)


class WithoutEquilibrium(QIRCP):
    """F4: it refuses to name the equilibrium at which its fluid rests."""

    def equilibrium(self, network, assignment=None):
        raise LinearizationError("WithoutEquilibrium: queue would be 3.225e+11 bytes")


@dataclass(frozen=True)
class EmptyQueue(FAST):
    """F5: the queue of its equilibrium is not declared, and runs from there have one."""

    def equilibrium(self, network, assignment=None):
        return replace(super().equilibrium(network, assignment), queue=None)


@dataclass(frozen=True)
class Rounding(QIRCP):
    """Its rates are multiples of 1 kb/s: linear models have the slope of a constant, which is 0."""

    @staticmethod
    def source_law(R):
        return 1e3 * floor(R / 1e3)


@dataclass(frozen=True)
class Clamped(QIRCP):
    """F6: linear models have its law on one side of the equilibrium only, where it is unstable for all gains."""

    @staticmethod
    def router_law(R, y, C, d, T, p):
        e = p.gamma * C - y
        return min(max(R + (40.0 if abs(e) < 1e-9 * C else 1.0) * p.alpha * T * e * R / (C * d), 1e-4 * C), C)


def by_label(flow, header, p, env):
    env.rate = header.rate if env.flow == 0 else 0.25 * header.rate


@dataclass(frozen=True)
class ByLabel(QIRCP):
    """The flow with the label 0 has more than the others."""

    def flow_hooks(self):
        return super().flow_hooks() | {"on_ack": by_label}


@dataclass(frozen=True, kw_only=True)
class FixedThreshold(Aimd):
    """It grows up to 20,000 bytes, a number that is no parameter."""

    @staticmethod
    def source_law(w, s):
        return w + s if w < 160_000.0 else w

    def flow_hooks(self):
        return super().flow_hooks() | {"on_ack": grow_up_to_a_threshold}


def grow_up_to_a_threshold(flow, header, p, env):
    if env.window < 20_000.0:
        grow(flow, header, p, env)


@dataclass(frozen=True)
class Dropping(QIRCP):
    """Its routers drop every tenth packet or so."""

    required_env = frozenset({"random"})

    def link_hooks(self):
        return super().link_hooks() | {"on_arrival": count_and_drop}


def count_and_drop(link, header, p, env):
    if env.random < 0.1:
        env.drop = 1


@dataclass(frozen=True)
class PowerOfThree(QIRCP):
    """Its hook has a power with a constant exponent, of which Python and compiled code have other last bits."""

    def flow_hooks(self):
        return super().flow_hooks() | {"on_ack": adopt_power}


def adopt_power(flow, header, p, env):
    R = 1e-6 * header.rate
    env.rate = header.rate * (1.0 + 1e9 * (R**3 - R * R * R))


made = [0]


@dataclass(frozen=True)
class Counting(QIRCP):
    """Each run has another rate: the hook knows how many runs there were, which is no record."""

    def flow_hooks(self):
        made[0] += 1
        share = 1.0 / (1.0 + 0.1 * made[0])

        def adopt_share(flow, header, p, env):
            env.rate = share * header.rate

        return super().flow_hooks() | {"on_ack": adopt_share}
