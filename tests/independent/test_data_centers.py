"""Second methods for claims on transports of data centers: printed equations in plain NumPy, and counts of roots."""

import numpy as np
import pytest
from scipy.optimize import brentq
from second_methods import delayed_determinant, jacobian, zeros_right_of_axis

# ---- DCQCN: equations (3) to (7) and table 2 of Zhu et al. 2016 ----------------------------------------------

C, S = 40e9 / 8000.0, 1.0  # packets of 1 kB a second
TAU, TAU_ALPHA, T, F, B, R_AI, G = 50e-6, 55e-6, 55e-6, 5.0, 10e3, 40e6 / 8000.0, 1.0 / 256.0
SLOPE = 0.01 / (200.0 - 5.0)  # of marks over packets of queue


def events(p, n):
    """Chance of a mark among n packets, and how many of n packets without a mark end, a packet."""
    clear = (1.0 - p) ** n
    return 1.0 - clear, p * clear / (1.0 - clear)


def dcqcn(x, alpha, target, late_x, p):
    """x', alpha', target' by (5) to (7)."""
    marked, _ = events(p, TAU * late_x)
    _, by_bytes = events(p, B)
    _, by_time = events(p, T * late_x)
    more = (1.0 - p) ** (F * B) * by_bytes + (1.0 - p) ** (F * T * late_x) * by_time
    return (
        -x * alpha * marked / (2.0 * TAU) + 0.5 * (target - x) * late_x * (by_bytes + by_time),
        G * (events(p, TAU_ALPHA * late_x)[0] - alpha) / TAU_ALPHA,
        -(target - x) * marked / TAU + R_AI * late_x * more,
    )


def rest(flows):
    """p, alpha and target at which equal flows rest."""
    x = C / flows

    def of(p):
        alpha = events(p, TAU_ALPHA * x)[0]
        ends = events(p, B)[1] + events(p, T * x)[1]
        return alpha, x + alpha * events(p, TAU * x)[0] / (TAU * ends)

    p = brentq(lambda p: dcqcn(x, *of(p), x, p)[2], 1e-6, 0.5, xtol=1e-15)
    return p, *of(p)


@pytest.mark.second_method("dcqcn-marks")
def test_the_closed_form_of_dcqcns_marks_is_too_large():
    ratios = []
    for flows in range(1, 15):
        closed = (R_AI * flows**2 / (TAU_ALPHA * C**2) * (1.0 / B + flows / (T * C)) ** 2) ** (1.0 / 3.0)
        ratios.append(closed / rest(flows)[0])
    assert min(ratios) > 1.1 and max(ratios) < 1.4


@pytest.mark.second_method("dcqcn-fixed")
def test_dcqcn_has_no_fixed_point_from_15_flows_on():
    assert rest(14)[0] < 0.01 < rest(15)[0] and rest(64)[0] > 0.01


@pytest.mark.second_method("dcqcn-margin")
@pytest.mark.parametrize("flows", [2, 4, 8, 10, 14])
def test_dcqcn_linearized_exactly_is_stable_at_50_us(flows):
    p, alpha, target = rest(flows)
    x = C / flows
    J = jacobian(lambda v: dcqcn(*v), [x, alpha, target, x, p])
    scale = np.array([x, 1.0, x, 10.0])
    now, late = np.zeros((4, 4)), np.zeros((4, 4))
    now[:3, :3], now[3, 0] = J[:, :3], flows
    late[:3, 0], late[:3, 3] = J[:, 3], J[:, 4] * SLOPE
    now, late = (matrix * scale / scale[:, None] for matrix in (now, late))

    def unstable_roots(delay):
        return zeros_right_of_axis(delayed_determinant(now, late, delay), 1e6)

    assert unstable_roots(50e-6) == 0
    assert unstable_roots(2e-3) > 0


# ---- patched TIMELY: Algorithm 2 of Zhu et al. 2016 as their fluid, and its table of parameters ----------------------


def patched_timely(flows, propagation=0.0):
    """Largest deviation of rates from their rest over the last tenth of 0.4 s, from 1 % above it; steps of 1 us."""
    line, mtu, segment, alpha, beta = 10e9, 8000.0, 128e3, 0.875, 0.008
    low, shortest, delta = 50e-6, 20e-6, 10e6
    q_low = line * low
    q_star = q_low * (1.0 + flows * delta / (beta * line))
    h, n = 1e-6, 400_000
    q = np.full(n + 1, q_star)
    x, g = 1.01 * line / flows, 0.0
    rest_x = line / flows
    sizes = []
    for k in range(n):
        update = max(segment / x, shortest)
        late = k - round((q[k] / line + mtu / line + propagation) / h)
        before = late - round(update / h)
        now_q, old_q = (q[j] if j >= 0 else q_star for j in (late, before))
        w = min(max(2.0 * g + 0.5, 0.0), 1.0)
        x += h * ((1.0 - w) * delta - x * w * beta * (now_q - q_low) / q_low) / update
        g += h * alpha * (-g + (now_q - old_q) / (line * shortest)) / update
        q[k + 1] = max(q[k] + h * (flows * x - line), 0.0)
        sizes.append(abs(x / rest_x - 1.0))
    return max(sizes[-40_000:])


@pytest.mark.slow
@pytest.mark.second_method("patched-stable")
@pytest.mark.parametrize(("flows", "least", "largest"), [(10, 0.0, 1e-6), (40, 0.01, 1.0)])
def test_patched_timely_is_not_stable_with_40_flows(flows, least, largest):
    assert least <= patched_timely(flows) < largest


# ---- PowerTCP: equations (7), (12) and section 3.3 of Addanki, Michel, Schmid 2022 ---------------------------------

LINK, BASE = 12_500.0, 10.0  # bytes/us, us


def power_tcp(share, remembers, flows=4, beta=2500.0, gamma=0.9):
    """Deviation of the queue late in a run of the fluid [bytes]: equal windows, sent in no less than the base RTT.

    Power is averaged over the base RTT, as in line 24 of Algorithm 1. The old window is that of an RTT ago, or one that
    becomes the window within an RTT (section 3.3).
    """
    h, end = 0.05, 2000.0
    n, R0 = int(end / h), share * BASE
    W, q = np.empty(n + 1), np.empty(n + 1)
    rest = (
        flows * beta
        if R0 + flows * beta / LINK > BASE
        else LINK * BASE * (1.0 / (1.0 - flows * beta / LINK / BASE) - 1.0)
    )
    W0 = LINK * max(BASE, R0 + rest / LINK) / flows
    W[0], q[0], P, kept = 1.02 * W0, rest, 1.0 + rest / (LINK * BASE), W0
    sent, smooth = flows * W0 / max(BASE, R0 + rest / LINK), 0.0
    arrivals = np.full(n + 1, sent)
    per_ack = LINK / flows / 1000.0  # ACKs of a flow in a us
    for k in range(n):
        D = R0 + q[k] / LINK
        late = k - round(D / h)
        then = k - round(R0 / h)
        old = (W[late] if late >= 0 else W0) if not remembers else kept
        if then >= 0:
            power = (arrivals[then] / LINK) * (1.0 + q[then] / (LINK * BASE))
            P += h * (power - P) / BASE
        W[k + 1] = W[k] + h * gamma * per_ack * (old / P + beta - W[k])
        kept += h * (W[k] - kept) / max(D, BASE)
        rate = flows * W[k] / max(D, BASE)
        smooth += h * (rate - sent - smooth) / (BASE / 16.0)
        arrivals[k + 1] = sent + smooth
        q[k + 1] = max(q[k] + h * (rate - LINK), 0.0)
    return float(np.std(q[n // 2 :]))


@pytest.mark.second_method("power-stable")
@pytest.mark.parametrize(("share", "remembers", "calm"), [(0.05, False, True), (0.5, False, False), (0.5, True, True)])
def test_the_two_old_windows_of_powertcp_swing_on_different_paths(share, remembers, calm):
    assert bool(power_tcp(share, remembers) < 500.0) is calm


@pytest.mark.second_method("power-pace")
@pytest.mark.parametrize(("flows", "beta", "stated"), [(2, 2500, 267.0), (2, 10_000, 79.0), (8, 2500, 79.0)])
def test_differences_of_powertcps_windows_decay_slowly(flows, beta, stated):
    """In an RTT D = T/k the map w -> k w is left of the fluid s + g = g k exp(-s D) when updates are fast."""
    k = 125_000.0 / (125_000.0 + flows * beta)
    gamma_r, D = 0.9 / 0.08, BASE / k
    slowest = brentq(lambda s: -s + gamma_r - gamma_r * k * np.exp(s * D), 1e-9, gamma_r)
    assert 1.0 / slowest == pytest.approx(stated, rel=0.01)


# ---- Swift ---------------------------------------------------------------------------------------------------------


@pytest.mark.second_method("swift-integer")
def test_an_integer_division_gives_all_windows_between_two_packets_one_target():
    mss = 4096
    targets = {1.0 / np.sqrt(window // mss) for window in range(2 * mss, 3 * mss, 64)}
    exact = {1.0 / np.sqrt(window / mss) for window in range(2 * mss, 3 * mss, 64)}
    assert len(targets) == 1 and max(exact) / min(exact) > 1.2
