import numpy as np
import pytest

from ecc.stability.run_classification import classify_stability

TIME = np.arange(1, 4001) * 0.01


@pytest.mark.parametrize("rate", [-0.2, -0.05, 0.05, 0.2])
def test_growth_rate_of_a_noisy_oscillation(rate):
    noise = np.random.default_rng(1).normal(0.0, 1e-4, len(TIME))
    wave = 0.01 * np.exp(rate * TIME) * np.cos(11.0 * TIME) + 0.003 + 1e-4 * TIME + noise
    found = classify_stability(TIME, wave, period=0.57, floor=5e-4, ceiling=0.5)
    assert found.growth_rate == pytest.approx(rate, abs=0.01)
    assert found.status == ("stable" if rate < 0 else "unstable")


def test_noise_alone_is_undecided():
    noise = np.random.default_rng(2).normal(0.0, 1e-3, len(TIME))
    assert classify_stability(TIME, noise, period=0.57).status == "undecided"
    assert classify_stability(TIME, noise, period=0.57, floor=0.1).status == "undecided"


@pytest.mark.parametrize("name", ["time", "deviation"])
def test_runs_with_nan_are_refused(name):
    time = np.arange(0.01, 20.0, 0.01)
    arrays = {"time": time, "deviation": np.cos(9.0 * time)}
    arrays[name] = np.where(time > 5.0, np.nan, arrays[name])
    with pytest.raises(ValueError, match=f"^{name} must be an array of finite numbers, got "):
        classify_stability(**arrays, period=0.7)


def test_bad_input():
    with pytest.raises(ValueError, match="time and deviation must have one shape"):
        classify_stability(TIME, TIME[:-1], period=1.0)
    with pytest.raises(ValueError, match="period must hold at least 4 samples"):
        classify_stability(TIME, TIME, period=0.02)
