"""Loops of trained window policies: proofs against runs of the discrete model, and Orca's published actor."""

import numpy as np
import pytest

import ecc
from ecc.errors import LinearizationError
from ecc.laws.dense_network import DenseNetwork, Layer
from ecc.linear import IntervalRecurrence
from ecc.models.shared.actors import orca_actor
from ecc.stability import (
    PolicyPath,
    check_monotone,
    check_noise,
    check_range,
    cover_paths,
    paced_policy,
    policies,
    policy_loop,
    policy_region,
    policy_run,
)


def a_policy(gain, at=0.9, feature=1, frames=1):
    """a = tanh(gain (at - feature)) of the newest frame: a known slope, without kinks."""
    weight = np.zeros((1, 7 * frames))
    weight[0, 7 * (frames - 1) + feature] = -gain
    return DenseNetwork([Layer(weight, [gain * at], "tanh")])


@pytest.mark.parametrize(("feature", "rtt", "slope"), [(1, 0.05, 1.0), (0, 0.02, 1.0), (0, 0.03, 0.5)])
def test_the_jacobian_is_that_of_the_law(feature, rtt, slope):
    """Pacing acts at once; the delivery rate after whole intervals, shared between two if the RTT is none of them."""
    gain = 0.3
    loop = policy_loop(a_policy(gain, feature=feature), PolicyPath(rtt, pacing_gain=1.0))
    assert loop.ratio == pytest.approx(0.9)
    k = np.log(4.0) * gain * 0.9
    if feature == 1:
        assert loop.system.roots(1)[0] == pytest.approx(1.0 - k)
    else:
        z = loop.system.roots(1)[0]
        assert z**3 - z**2 + k * (slope * z + (1.0 - slope)) == pytest.approx(0.0, abs=1e-9)


def test_the_gain_margin_of_a_policy_of_its_own_pacing():
    """x[n+1] = (1 - k) x[n] loses stability at k = 2."""
    loop = policy_loop(a_policy(0.3), PolicyPath(0.05, pacing_gain=1.0))
    assert loop.is_stable and loop.gain_margin == pytest.approx(2.0 / (np.log(4.0) * 0.3 * 0.9))


def test_a_region_holds_for_runs_and_truncation_has_an_ultimate_bound():
    policy, path = a_policy(0.4), PolicyPath(0.05, pacing_gain=1.0)
    region = policy_region(policy, path, max_radius=0.2, max_sets=8)
    assert region.is_stable and region.ultimate == 0.0 and region.radius > 0.1
    run = policy_run(policy, path, [0.9 * (1.0 + region.radius)], 200)
    assert run[-1] == pytest.approx(0.9, rel=1e-9)
    cut = policy_region(policy, path, max_radius=0.2, truncated=True, window=500.0, max_sets=8)
    assert 0.0 < cut.ultimate < cut.radius
    for start in (1.0 - cut.radius, 1.0 + cut.radius):
        run = policy_run(policy, path, [cut.center * start], 300, window=500.0 / cut.center)
        assert np.abs(run[100:] / cut.center - 1.0).max() <= cut.ultimate


def test_a_family_of_paths_is_proven_and_a_loop_with_too_much_gain_is_refuted():
    calm = cover_paths(a_policy(0.3), (0.05, 0.055), pacing_gains=(1.0, 1.0))
    assert calm.is_stable and calm.proven == ((0.05, 0.055),)
    wild = cover_paths(a_policy(1.8), (0.05, 0.051), pacing_gains=(1.0, 1.0), resolution=1e-3)
    assert wild.is_stable is False and wild.refuted == (0.0505,)


def observations(n_intervals, share, feature, gain, ratio, windows, frames):
    """Frames of the loop, oldest first, for windows relative to the fixed point, oldest first."""
    rows = []
    for n in range(len(windows) - frames, len(windows)):
        delivered = (1.0 - share) * windows[n - n_intervals] + share * windows[n - n_intervals - 1]
        quotient = feature * delivered / windows[n]
        rows.append([ratio * delivered, gain * ratio * windows[n], 0.0, quotient, 0.02, 1.0, 1.0])
    return np.concatenate(rows)


@pytest.mark.parametrize("n_intervals", [0, 2])
@pytest.mark.parametrize("kind", ["leaky_relu", "linear"])
def test_enclosures_contain_all_histories_of_a_family(kind, n_intervals):
    """Observations in random directions, and the change of the action against the enclosed coefficients."""
    rng = np.random.default_rng(3)
    layers = [Layer(0.5 * rng.normal(size=(8, 21)), 0.3 * rng.normal(size=8), kind, 0.2)]
    network = DenseNetwork([*layers, Layer(rng.normal(size=(1, 8)), [0.1], "tanh" if kind != "linear" else kind)])
    share, feature, gain, ratio, rho = (0.3, 0.2), (0.4, 0.05), (1.2, 0.1), (0.7, 0.02), 0.2
    family = policies._Family(n_intervals, share, feature, gain, ratio, 0.02)
    center, directions = policies._inputs(network, family, rho)
    loop = policies._recurrence(network, family, rho)
    views = np.vstack([rng.normal(size=(50, 21)), np.eye(21), -np.eye(21)])
    support = views @ center + np.abs(views @ directions).sum(axis=1)
    n = len(loop.low)
    for k in range(400):
        corner = rng.uniform(-1.0, 1.0, 4) if k % 2 else rng.choice([-1.0, 1.0], 4)
        values = [
            middle + radius * at for (middle, radius), at in zip((share, feature, gain, ratio), corner, strict=True)
        ]
        signs = rng.uniform(-1.0, 1.0, n) if k % 3 else rng.choice([-1.0, 1.0], n)
        seen = observations(n_intervals, *values, 1.0 + rho * signs, 3)
        assert (views @ seen <= support + 1e-12).all()
        x, at_rest = np.log1p(rho * signs), observations(n_intervals, *values, np.ones(n), 3)
        change = x[-1] + np.log(4.0) * float(network(seen)[0] - network(at_rest)[0])
        terms = np.sort([loop.low * x[::-1], loop.high * x[::-1]], axis=0).sum(axis=1)
        assert terms[0] - 1e-12 <= change <= terms[1] + 1e-12


def test_no_interval_of_rtts_extends_beyond_two_intervals_of_the_policy(monkeypatch):
    """Otherwise data of a third interval would be taken for those of the second."""
    pieces = []
    monkeypatch.setattr(policies, "_is_proven", lambda network, rtts, *rest: pieces.append(rtts) or True)
    for low in (0.04 * (1.0 - 0.75e-9), 0.04, 0.0401, 1.0 - 1e-10):
        cover_paths(a_policy(0.3), (low, low + 0.07))
    for low, high in pieces:
        n = np.floor(low / 0.02 + 1e-9)
        assert n - 1e-9 <= low / 0.02 <= high / 0.02 <= n + 1.0 + 1e-12


def test_no_proof_has_windows_that_would_need_a_queue():
    network, path = a_policy(0.3, at=0.99), PolicyPath(0.05, pacing_gain=1.0)
    region = policy_region(network, path, max_radius=0.1)
    assert 0.0 < region.radius and 0.99 * (1.0 + region.radius) <= 1.0
    assert cover_paths(network, (0.05, 0.05), pacing_gains=(1.0, 1.0), radius=0.02).is_stable is None
    assert cover_paths(network, (0.05, 0.05), pacing_gains=(1.0, 1.0), radius=0.005).is_stable is True


def test_a_box_is_not_proven_by_a_contraction_that_may_leave_it():
    """x = log(w/w*) is larger at the lower end of a box of windows; x -> -0.9 x from there leaves the upper end."""
    loop = IntervalRecurrence([-0.9], [-0.9])
    assert not policies._contracts(loop, 0.2) and policies._contracts(loop, 0.1)
    assert -0.9 * np.log1p(-0.2) > np.log1p(0.2) and -0.9 * np.log1p(-0.1) < np.log1p(0.1)


def test_a_policy_that_always_grows_has_no_fixed_point():
    with pytest.raises(LinearizationError, match="the action is positive for all throughputs up to the maximum"):
        policy_loop(a_policy(0.3, at=3.0), PolicyPath(0.05))


def test_properties_are_proven_or_refuted_by_an_input():
    policy = a_policy(0.5)
    center, directions = np.full(7, 0.5), 0.1 * np.eye(7)
    assert check_range(policy, center, directions, low=0.0).holds is True
    refuted = check_range(policy, center, directions, high=0.1)
    assert refuted.holds is False and policy(refuted.counterexample)[0] > 0.1
    along = np.eye(7)[1]
    assert check_monotone(policy, center, directions, along, increasing=False).holds is True
    rising = check_monotone(policy, center, directions, along, increasing=True)
    assert rising.holds is False and policy.jacobian(rising.counterexample)[0] @ along < 0.0
    noise = 0.01 * np.eye(7)[1]
    change = abs(float(policy(center - noise)[0] - policy(center)[0]))
    assert check_noise(policy, center, noise, 1.1 * change).holds is True
    assert check_noise(policy, center, noise, 0.9 * change).holds is False


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PolicyPath(0.0), "rtt must be > 0 s and finite, got 0.0"),
        (lambda: policy_run(a_policy(0.3), PolicyPath(0.05), []), "ratios must be > 0 and at least one"),
        (lambda: cover_paths(a_policy(0.3), (0.05, 0.04)), "rtts must be two increasing numbers > 0"),
        (lambda: cover_paths(a_policy(0.3), (0.05, 0.06), radius=0.7), "radius must be between 0 and 0.5, got 0.7"),
        (lambda: policy_region(a_policy(0.3), PolicyPath(0.05), window=2.0), "window must be > 2 packets, .*, got 2.0"),
        (lambda: policy_loop(DenseNetwork([Layer([[1.0]], [0.0])]), PolicyPath(0.05)), "7 inputs per frame"),
        (lambda: check_range(a_policy(0.3), np.ones(7), np.eye(7)), "exactly one of low and high must be finite"),
        (lambda: check_noise(a_policy(0.3), np.ones(7), -np.ones(7), 0.1), "noise and bound must be >= 0"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(("rtt", "stable"), [(0.05, True), (0.08, False)])
def test_orcas_actor_is_stable_on_one_path_and_not_on_another(rtt, stable):
    loop = policy_loop(orca_actor(), PolicyPath(rtt))
    assert loop.is_stable is stable and loop.system.certify().is_proven
    run = policy_run(orca_actor(), PolicyPath(rtt), [loop.ratio * 1.001], 400)
    assert bool(np.abs(run[-50:] / loop.ratio - 1.0).max() < 1e-4) is stable


@pytest.mark.slow
def test_orcas_actor_is_proven_on_a_family_and_bounded_under_truncation():
    assert cover_paths(orca_actor(), (0.05, 0.052)).is_stable is True
    region = policy_region(orca_actor(), PolicyPath(0.03), max_radius=0.05, truncated=True, window=500.0)
    assert region.radius == 0.05 and 0.0 < region.ultimate < 0.03
    for start in (0.95, 1.05):
        window = 500.0 / region.center
        run = policy_run(orca_actor(), PolicyPath(0.03), [region.center * start], 300, window=window)
        assert np.abs(run[100:] / region.center - 1.0).max() <= region.ultimate
    assert ecc.stability.policy_loop(orca_actor(), PolicyPath(0.03)).is_stable


@pytest.mark.slow
@pytest.mark.parametrize(("rtt", "stable"), [(0.05, True), (0.08, False)])
def test_packets_rest_or_cycle_as_the_loop_of_orcas_actor_does(rtt, stable):
    """A cycle of 3 % of the capacity, as in the discrete model, or a rate constant up to one packet per sample."""
    capacity = 200e6
    network = ecc.Network.dumbbell(capacity, rtts=[rtt], buffer=None, packet_size=1000)
    scenario = ecc.Scenario(network, paced_policy(orca_actor(), capacity), duration=8.0)
    rate = ecc.packet.simulate(scenario, sample=0.02).rate.to_numpy()[-100:, 0] / capacity
    model = policy_run(orca_actor(), PolicyPath(rtt), [1.0], 400)[-100:]
    assert rate.mean() == pytest.approx(model.mean(), rel=1e-3)
    assert np.ptp(rate) == pytest.approx(np.ptp(model), abs=0.004)
    assert bool(np.ptp(rate) < 0.003) is stable and policy_loop(orca_actor(), PolicyPath(rtt)).is_stable is stable
