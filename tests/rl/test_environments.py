"""Learning environments: Gymnasium's checks, seeds, copies, vector and parallel environments, and wrong inputs."""

import copy
import gc
import multiprocessing
import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from episodes import continued, episode, random_actions
from waiting import HANG

import ecc
from ecc.rl import aurora, orca

NETWORK = ecc.Network.dumbbell("10 Mb/s", rtts=["50 ms"] * 2, buffer="50 kB")
SCENARIO = ecc.Scenario(NETWORK, ecc.models.ConstantRate("4 Mb/s"), duration=20.0)


@pytest.mark.parametrize("name", [pytest.param("aurora", marks=pytest.mark.slow), "orca"])
def test_gymnasium_accepts_the_environments(name):
    from gymnasium.utils.env_checker import check_env

    with warnings.catch_warnings():
        # There is no rendering, and the actions of Aurora are larger than 1.
        warnings.filterwarnings("ignore", message=".*(alternative render modes|symmetric and normalized)")
        check_env(ecc.rl.make(name))


def test_a_seed_determines_an_episode():
    first, second = ecc.rl.make("aurora"), ecc.rl.make("aurora")
    one = episode(first, 7)
    assert (one == episode(second, 7)).all() and (one == episode(first, 7)).all()
    assert not np.array_equal(one, episode(second, 8))
    assert not np.array_equal(episode(first), one)  # the next episode has another path


@pytest.mark.parametrize(
    ("name", "threads"),
    [
        ("aurora", 1),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (("aurora", 2), ("orca", 1), ("orca", 2))),
    ],
)
def test_a_vector_environment_equals_single_ones(name, threads):
    """Also within episodes, after copies, and across the ends of episodes."""
    vector = ecc.rl.make(name, 3, threads, steps=8)
    singles = [ecc.rl.make(name, steps=8) for _ in range(3)]
    observations, _ = vector.reset(seed=5)
    over = [False] * 3
    for k, single in enumerate(singles):
        assert (single.reset(seed=5 + k)[0] == observations[k]).all()
    for t, actions in enumerate(random_actions(singles[0], 60).reshape(20, 3, 1)):
        if t in (4, 9, 13):
            vector, singles = pickle.loads(pickle.dumps(vector)), copy.deepcopy(singles)
        observations, rewards, *ends, _ = vector.step(actions)
        for k, single in enumerate(singles):
            if over[k]:
                found = (single.reset()[0], 0.0, False, False)
            else:
                *found, _ = single.step(actions[k])
            assert (found[0] == observations[k]).all()
            assert tuple(found[1:]) == (rewards[k], ends[0][k], ends[1][k])
            over[k] = found[2] or found[3]
    assert vector.interval.now.shape == (3,) and len(vector.scenarios) == 3


def test_environments_of_a_scenario_use_its_path():
    environment = ecc.rl.Environment(SCENARIO, flow=1, steps=5)
    environment.reset(seed=1)
    for _ in range(4):
        _, _, terminated, truncated, _ = environment.step([40.0])
        assert not terminated and not truncated
    assert environment.interval.rate == 12e6  # 1000 packets/s of 1500 bytes
    assert environment.interval.srtt > 0.05 and environment.interval.delivery_rate < 10e6
    assert environment.step([0.0])[3]
    with pytest.raises(ecc.EccError, match="^reset must be called after the end of an episode$"):
        environment.step([0.0])


def test_functions_can_be_replaced():
    def observe(interval):
        return (interval.delivery_rate / 1e6, interval.rtt)

    act = ecc.rl.Action("window", lambda action, interval: interval.window * 2.0**action)
    scenarios = [ecc.Scenario(NETWORK, ecc.models.CUBIC(), duration=2.0 + k) for k in range(2)]
    options = {"observe": observe, "reward": lambda i: -i.loss, "act": act, "interval": "100 ms", "history": 2}
    environment = ecc.rl.Environment(scenarios, **options)
    observation, _ = environment.reset(seed=3)
    assert observation.shape == (4,) and environment.scenario.network == NETWORK
    ended, count = False, 0
    while not ended:
        before = environment.interval.window
        _, reward, terminated, ended, _ = environment.step([0.0])
        count += 1
        assert reward <= 0.0 and not terminated and before > 0.0
    assert environment.interval.now == environment.scenario.duration and 15 < count < 31


def test_an_episode_ends_with_its_flow():
    network = ecc.Network.dumbbell("10 Mb/s", rtts=["50 ms"], sizes=["200 kB"], starts=[0.3])
    environment = ecc.rl.Environment(ecc.Scenario(network, ecc.models.ConstantRate("4 Mb/s"), 20.0))
    environment.reset(seed=1)
    assert environment.interval.now == pytest.approx(0.45)
    ended = False
    while not ended:
        _, _, ended, truncated, _ = environment.step([0.0])
        assert not truncated
    assert 0.7 < environment.interval.now < 0.9


@pytest.mark.slow
def test_several_flows_learn():
    from pettingzoo.test import parallel_api_test, parallel_seed_test

    def made(steps=20):
        return ecc.rl.ParallelEnvironment(SCENARIO, steps=steps)

    parallel_api_test(made(), num_cycles=30)
    parallel_seed_test(made)
    environment = made(200)
    environment.reset(seed=1)
    while environment.agents:
        environment.step({"flow_0": [0.5], "flow_1": [-0.5]})
    assert environment.intervals["flow_0"].rate > environment.intervals["flow_1"].rate


def test_an_interval_without_samples_keeps_the_last_rtt():
    single = ecc.rl.Environment(SCENARIO, interval=1e-6)
    game = ecc.rl.ParallelEnvironment(SCENARIO, (0, 1), interval=1e-6)
    single.reset(seed=1)
    game.reset(seed=1)
    before = single.interval, game.intervals["flow_0"]
    single.step([0.0])
    game.step({agent: [0.0] for agent in game.agents})
    for earlier, later in zip(before, (single.interval, game.intervals["flow_0"]), strict=True):
        assert later.n_rtts == 0.0 and later.rtt == later.rtt_first == later.rtt_second == earlier.rtt > 0.0


def test_aurora_observes_what_its_description_says():
    values = dict.fromkeys(ecc.rl.Interval._fields, 1.0)
    values |= {"duration": 0.5, "sent": 30_000.0, "delivered": 15_000.0, "lost": 5_000.0, "n_rtts": 10.0}
    interval = ecc.rl.Interval(**values | {"rtt": 0.3, "rtt_first": 0.2, "rtt_second": 0.4, "min_mean_rtt": 0.1})
    assert aurora.observe(interval) == pytest.approx((0.4, 3.0, 2.0))
    assert aurora.reward(interval) == pytest.approx(0.001 * (10 * 20.0 - 1000 * 0.3 - 2000 * 0.25))
    assert [aurora.change_rate(a, interval._replace(rate=1e6)) for a in (4.0, -4.0)] == pytest.approx(
        [1.1e6, 1e6 / 1.1]
    )
    assert aurora.change_rate(-40.0, interval) == 480e3
    task = aurora.task(slips="all")
    silent = interval._replace(delivered=0.0, n_rtts=0.0)
    assert task.observe(interval)[2] == pytest.approx(30.0 / 13.5) and task.observe(silent)[1:] == (0.0, 1.0)
    assert task.reward(silent) == pytest.approx(-0.02 - 2.0)
    arrays = ecc.rl.Interval(*(np.full(2, value) for value in interval))
    for function in (task.observe, aurora.observe, orca.observe):
        assert np.array(function(arrays))[:, 1] == pytest.approx(np.array(function(interval)))


def test_slips_change_the_path():
    def first(slips):
        scenario = aurora.Paths(slips=slips)(np.random.default_rng(1))
        return scenario, scenario.network.rtts[0]

    (plain, rtt), (slipped, shorter) = first(()), first(("no service time", "loss before queue"))
    capacity = plain.network.capacities[0]
    assert shorter == pytest.approx(rtt - 12_000.0 / capacity)
    assert slipped.network.flows[0].route == (1, 0) and slipped.impairments[0].link == 1


def test_orca_moves_whole_packets():
    interval = ecc.rl.Interval(**dict.fromkeys(ecc.rl.Interval._fields, 1.0) | {"window": 1500.0 * 50})
    assert [float(orca.change_window(a, interval)) / 1500 for a in (0.0, 0.01, 1.0, -1.0)] == [50, 50, 200, 12]
    assert float(orca.change_window(-1.0, interval._replace(window=3000.0))) == 3000.0


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_environments_run_in_worker_processes(method):
    """An environment that has run in threads is copied to workers, in the middle of an episode."""
    environment, environments = ecc.rl.make("aurora"), ecc.rl.make("aurora", 3, 2)
    episode(environment, 3, 5)
    environments.reset(seed=1)
    environments.step(np.zeros((3, 1)))
    copies = [copy.deepcopy(environment) for _ in range(2)]
    expected = continued(copy.deepcopy(environment))
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        for found in pool.map(continued, copies, timeout=HANG):
            assert (found == expected).all()
        states = pool.submit(environments.step, np.zeros((3, 1))).result(HANG)
    assert (states[0] == environments.step(np.zeros((3, 1)))[0]).all()


def used_memory():
    gc.collect()
    return pytest.importorskip("psutil").Process().memory_info().rss


@pytest.mark.slow
@pytest.mark.parametrize("num_envs", [None, 20])
def test_memory_is_flat_over_episodes(num_envs):
    """A leak of 100 bytes in each of 12,000 episodes would be 1.2 MB."""
    network = ecc.Network.dumbbell("1 Mb/s", rtts=["10 ms"], buffer="50 kB")
    scenario = ecc.Scenario(network, ecc.models.ConstantRate("100 kb/s"), duration=5.0)
    if num_envs is None:
        made = ecc.rl.Environment(scenario, steps=1)
    else:
        made = ecc.rl.VectorEnvironment(scenario, num_envs, 2, steps=1)
    action = np.zeros((num_envs, 1) if num_envs else 1)
    made.reset(seed=1)

    def run(n_episodes):
        for _ in range(n_episodes // (num_envs or 1)):
            if num_envs is None:
                made.reset()
            else:
                made.step(action)  # begins the next episodes
            made.step(action)
        return used_memory()

    before = run(2_000)
    assert run(12_000) < before + 800_000


@pytest.mark.slow
def test_memory_is_flat_over_networks():
    """Each of 1,000 episodes has another network, whose tables have kilobytes."""
    environments = ecc.rl.make("aurora", 20, steps=1)
    environments.reset(seed=1)
    used = []
    for _ in range(2):
        for _ in range(100):
            environments.step(np.zeros((20, 1)))
        used.append(used_memory())
    assert used[1] < used[0] + 2**20


@pytest.mark.slow
def test_import_is_light_and_a_missing_package_is_named():
    code = (
        "import sys, ecc; assert 'gymnasium' not in sys.modules and 'ecc.rl' not in sys.modules\n"
        "sys.modules['gymnasium'] = None\n"
        "try: ecc.rl.make\nexcept ecc.EccError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ecc.rl needs gymnasium, which is not installed: ") and "[rl]" in done.stdout


ACT = aurora.ACTION


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ecc.rl.make("auror"), ValueError, "name must be among aurora, orca, got 'auror'"),
        (lambda: ecc.rl.make("orca", threads=2), ValueError, "threads needs num_envs, got threads=2"),
        (lambda: ecc.rl.make("orca", 0), ValueError, "num_envs must be >= 1, got 0"),
        (lambda: ecc.rl.make("orca", 2, 0), ValueError, "threads must be >= 1, got 0"),
        (lambda: ecc.rl.make("aurora", slips=["loss"]), ValueError, "slips must be among short delivery.*, got 'loss'"),
        (lambda: ecc.rl.make("aurora", slips="none"), TypeError, "slips must be a sequence of .*, got 'none'"),
        (lambda: ecc.rl.Environment(SCENARIO, step=3), TypeError, "options must be among observe.*, got 'step'"),
        (
            lambda: ecc.rl.Environment(3),
            TypeError,
            "scenario must be a Scenario, a sequence of them or a function, got 3",
        ),
        (lambda: ecc.rl.Environment([3]), TypeError, r"scenario must be a Scenario, got 3 \(item 0\)"),
        (lambda: ecc.rl.Environment(SCENARIO, flow=2).reset(), ValueError, "flow must be < 2, .*, got 2"),
        (lambda: ecc.rl.Environment(lambda rng: 3).reset(), TypeError, "scenario must return a Scenario, got 3"),
        (lambda: ecc.rl.Environment(SCENARIO, reward=1), TypeError, "reward must be a function, got 1"),
        (lambda: ecc.rl.Environment(SCENARIO, act="rate"), TypeError, "act must be an Action, got 'rate'"),
        (lambda: ecc.rl.Environment(SCENARIO, interval=0), ValueError, "interval must be > 0 s, got 0"),
        (lambda: ecc.rl.Environment(SCENARIO, steps=0), ValueError, "steps must be >= 1, got 0"),
        (lambda: ecc.rl.Environment(SCENARIO, history=2000), ValueError, "history must be <= 1000, got 2000"),
        (lambda: ecc.rl.Environment(SCENARIO, warmup=-1), ValueError, "warmup must be > 0, got -1"),
        (lambda: ecc.rl.Environment(SCENARIO, low=[0.0]), ValueError, "low and high must have one number per feature"),
        (
            lambda: ecc.rl.Environment(SCENARIO, observe=lambda i: 1.0),
            TypeError,
            r"observe must return a sequence of numbers, got shape \(\)",
        ),
        (lambda: ecc.rl.Action("rate", None), TypeError, "apply must be a function, got None"),
        (lambda: ecc.rl.Action("a b", ACT.apply), ValueError, "word must be 'rate', 'window' or .*, got 'a b'"),
        (lambda: ecc.rl.Action("rate", ACT.apply, 1, 1), ValueError, r"low must be < high \(1\), got 1"),
        (lambda: ecc.rl.Environment(SCENARIO).step([0.0]), ecc.EccError, "reset must be called .*"),
        (lambda: ecc.rl.ParallelEnvironment(SCENARIO, (0, 0)), ValueError, r"flows must be different indices, got .*"),
        (lambda: aurora.Paths(capacity=(2.0, 1.0)), ValueError, "capacity must be a pair low <= high .*"),
        (lambda: orca.Paths(rtt=3.0), TypeError, "rtt must be a pair of numbers, got 3.0"),
    ],
)
def test_wrong_inputs_are_refused_in_one_line(call, error, message):
    with pytest.raises(error, match=f"^{message}"):
        call()


def test_wrong_actions_are_refused():
    environment, environments = ecc.rl.make("orca"), ecc.rl.make("orca", 2)
    environment.reset(seed=1)
    environments.reset(seed=1)
    for action in (1.5, np.nan, -np.inf):
        with pytest.raises(ValueError, match="^action must be from -1 to 1, got "):
            environment.step([action])
        with pytest.raises(ValueError, match="^action must be from -1 to 1, got "):
            environments.step([[action], [0.0]])
    with pytest.raises(TypeError, match="^action must be one number in an array, got 0.5$"):
        environment.step(0.5)
    with pytest.raises(ValueError, match=r"^actions must have the shape \(2, 1\), got \(2,\)$"):
        environments.step([0.0, 0.0])
