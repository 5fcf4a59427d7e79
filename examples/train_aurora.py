"""Train Aurora's policy (30-32-16-1, tanh) by PPO, and compare its return with those of simple controllers.

    python examples/train_aurora.py --policy aurora.npz --curve aurora.csv

The default budget is that of the original program: 6 runs of 1,600 episodes of 410 steps. The policy is written in the
format of `ecc.laws.dense_network`, for raw observations. The curve is appended to its file, one row for each batch in
which episodes ended: name of the training, steps, mean return of these episodes, CPU seconds.
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the matrices are small

import numpy as np
from ppo import train

import ecc
from ecc.laws.dense_network import DenseNetwork, Layer
from ecc.rl import aurora

BUDGET = 6 * 1600 * 410
PACKET = 8.0 * aurora.PACKET


def evaluate(controller, episodes=500, seed=1_000_000, **options):
    """Return the returns of a controller: a function of observations, last intervals and scenarios."""
    environments = ecc.rl.make("aurora", episodes, **options)
    observations, _ = environments.reset(seed=seed)
    scenarios, returns = [*environments.scenarios], np.zeros(episodes)
    for _ in range(environments.task.steps):
        actions = controller(observations, environments.interval, scenarios)
        observations, rewards, *_ = environments.step(np.clip(actions, -40.0, 40.0).reshape(-1, 1))
        returns += rewards
    return returns, scenarios


def bounds(scenarios, steps=400):
    """Return upper bounds of the expected returns: the capacity is used, and no packet waits or is dropped."""
    capacity = np.array([scenario.network.capacities[0] for scenario in scenarios]) / PACKET
    loss = np.array([scenario.impairments[0].probability for scenario in scenarios])
    rtt = np.array([scenario.network.rtts[0] for scenario in scenarios]) + 1.0 / capacity
    after = np.array([scenario.impairments[0].link == 0 for scenario in scenarios])  # losses use capacity
    return steps * (0.01 * capacity * (1.0 - loss * after) - rtt - 2.0 * loss)


def known_capacity(observations, interval, scenarios):
    """Go to 98 % of the capacity, which no controller knows."""
    goal = 0.98 * np.array([scenario.network.capacities[0] for scenario in scenarios])
    change = goal / interval.rate
    return np.where(change >= 1.0, (change - 1.0) / aurora.GAIN, (1.0 - 1.0 / change) / aurora.GAIN)


def constant_rate(observations, interval, scenarios):
    """Keep the initial rate."""
    return np.zeros(len(observations))


def random_actions(observations, interval, scenarios, rng=np.random.default_rng(1)):  # noqa: B008
    """Take normal actions with standard deviation 1, as an untrained policy does."""
    return rng.normal(size=len(observations))


def network_of(policy):
    """Return the policy of `ppo.train` as a network."""
    weights = policy.weights
    last = len(weights) - 2
    layers = [Layer(weights[k].T, weights[k + 1], "linear" if k == last else "tanh") for k in range(0, len(weights), 2)]
    return DenseNetwork(layers)


def main():
    """Train, write the files, and print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--budget", type=int, default=BUDGET, help="number of steps")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--reward-scale", type=float, default=0.01)
    parser.add_argument("--slips", choices=["all"], help="restore the deviations of the original program")
    parser.add_argument("--policy", help="file to write, .npz")
    parser.add_argument("--curve", help="file to write, .csv")
    options = parser.parse_args()
    slips = {"slips": options.slips} if options.slips else {}
    environments = ecc.rl.make("aurora", options.envs, **slips)
    policy, curve = train(
        environments,
        options.budget,
        options.seed,
        reward_scale=options.reward_scale,
        progress=lambda row: print("{:9.0f} steps  return {:7.1f}  {:6.1f} CPU s".format(*row), flush=True),
    )
    network = network_of(policy)
    if options.policy:
        network.save(options.policy)
    if options.curve:
        name = f"seed {options.seed}" + "; slips" * bool(slips) + "; raw rewards" * (options.reward_scale == 1.0)
        is_new = not os.path.exists(options.curve)
        with open(options.curve, "a") as file:
            if is_new:
                print("training,steps,mean_return,cpu_seconds", file=file)
            for steps, value, seconds in curve[np.isfinite(curve[:, 1])]:
                print(f"{name},{steps:.0f},{value:.1f},{seconds:.1f}", file=file)
    controllers = {
        "known capacity": known_capacity,
        "trained policy": lambda observations, *_: network(observations),
        "constant rate": constant_rate,
        "random actions": random_actions,
    }
    for name, controller in controllers.items():
        returns, scenarios = evaluate(controller, **slips)
        bound = bounds(scenarios)
        error = 2.0 * returns.std() / len(returns) ** 0.5
        print(
            f"{name:15} {returns.mean():7.1f} +- {error:4.1f}   bound {bound.mean():6.1f}   "
            f"median of return/bound {np.median(returns / bound):6.1%}"
        )


if __name__ == "__main__":
    main()
