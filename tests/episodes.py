"""Beginnings of episodes of learning environments, in a module that worker processes import."""

import numpy as np


def random_actions(environment, n, seed=0):
    space = environment.action_space
    return np.random.default_rng(seed).uniform(0.3 * space.low, 0.3 * space.high, (n, 1))


def episode(environment, seed=None, n=30):
    """Observations and rewards of a beginning of an episode."""
    observation, _ = environment.reset(seed=seed)
    out = [observation]
    for action in random_actions(environment, n):
        observation, reward, terminated, truncated, _ = environment.step(action)
        out.append(np.append(observation, reward))
        if terminated or truncated:
            break
    return np.concatenate(out)


def continued(environment, n=5):
    """Observations of the next steps."""
    return np.concatenate([environment.step(action)[0] for action in random_actions(environment, n)])
