"""Proximal policy optimization (PPO) in NumPy, for vector environments of Gymnasium with autoreset in the next step.

Policy and value function are dense networks with tanh, trained by Adam on normalized observations. `train` returns the
policy as a `Policy`, whose `arrays` hold the layers for raw observations: the normalization is part of the first one.
"""

import time

import numpy as np


class Dense:
    """A dense network with tanh after each layer but the last, and its gradient."""

    def __init__(self, sizes, rng, last_scale=1.0):
        self.arrays = []
        for n_in, n_out in zip(sizes, sizes[1:], strict=False):
            matrix = np.linalg.qr(rng.normal(size=(max(n_in, n_out), min(n_in, n_out))))[0]
            self.arrays += [matrix if n_in >= n_out else matrix.T, np.zeros(n_out)]
        self.arrays[-2] *= last_scale

    def __call__(self, x):
        """Return the output of a batch; keep what the gradient needs."""
        self.inputs = [x]
        for k in range(0, len(self.arrays), 2):
            x = x @ self.arrays[k] + self.arrays[k + 1]
            if k + 2 < len(self.arrays):
                x = np.tanh(x)
                self.inputs.append(x)
        return x

    def gradient(self, slope):
        """Return the gradient of a loss whose derivative by the last output is `slope`."""
        out = []
        for k in range(len(self.arrays) - 2, -1, -2):
            x = self.inputs[k // 2]
            out = [x.T @ slope, slope.sum(axis=0), *out]
            slope = (slope @ self.arrays[k].T) * (1.0 - x * x)
        return out


class Adam:
    """Adam, with a limit on the norm of the gradient."""

    def __init__(self, arrays, max_norm=0.5):
        self.arrays, self.max_norm, self.t = arrays, max_norm, 0
        self.means, self.squares = [np.zeros_like(a) for a in arrays], [np.zeros_like(a) for a in arrays]

    def step(self, gradients, rate):
        self.t += 1
        norm = np.sqrt(sum((g * g).sum() for g in gradients))
        scale = min(1.0, self.max_norm / (norm + 1e-12))
        rate *= np.sqrt(1.0 - 0.999**self.t) / (1.0 - 0.9**self.t)
        for a, g, m, v in zip(self.arrays, gradients, self.means, self.squares, strict=True):
            m += 0.1 * (scale * g - m)
            v += 0.001 * ((scale * g) ** 2 - v)
            a -= rate * m / (np.sqrt(v) + 1e-5)


class Scale:
    """Running mean and standard deviation of observations."""

    def __init__(self, n):
        self.count, self.mean, self.var = 1e-4, np.zeros(n), np.ones(n)

    def update(self, x):
        n, mean, var = len(x), x.mean(axis=0), x.var(axis=0)
        total, shift = self.count + n, mean - self.mean
        self.var = (self.count * self.var + n * var + shift**2 * self.count * n / total) / total
        self.mean, self.count = self.mean + shift * n / total, total

    def __call__(self, x):
        return (x - self.mean) / np.sqrt(self.var + 1e-8)


class Policy:
    """The mean action, of raw observations."""

    def __init__(self, network, scale, low, high):
        w, b = (a.astype(float) for a in network.arrays[:2])
        w = w / np.sqrt(scale.var + 1e-8)[:, None]
        self.weights = [w, b - scale.mean @ w, *(a.copy() for a in network.arrays[2:])]
        self.low, self.high = low, high

    def __call__(self, observations):
        x = np.asarray(observations, float)
        for k in range(0, len(self.weights), 2):
            x = x @ self.weights[k] + self.weights[k + 1]
            x = np.tanh(x) if k + 2 < len(self.weights) else x
        return np.clip(x, self.low, self.high)


def advantages(rewards, values, ended, gamma, decay):
    """Return generalized advantage estimates; an episode that was truncated goes on in the value of its last state."""
    out, last = np.zeros_like(rewards), 0.0
    for t in range(len(rewards) - 1, -1, -1):
        last = rewards[t] + gamma * values[t + 1] - values[t] + gamma * decay * ~ended[t] * last
        out[t] = last
    return out


def train(
    environments,
    budget,
    seed=0,
    *,
    hidden=(32, 16),
    batch=8192,
    minibatch=2048,
    epochs=4,
    rate=1e-3,
    clip=0.2,
    gamma=0.99,
    decay=0.95,
    reward_scale=0.01,
    entropy=0.0,
    spread=0.0,
    progress=None,
):
    """Return the policy, and the curve: an array of (steps, mean return of the episodes that ended, CPU seconds)."""
    rng, n = np.random.default_rng(seed), environments.num_envs
    n_in, space = environments.single_observation_space.shape[0], environments.single_action_space
    actor = Dense([n_in, *hidden, 1], rng, last_scale=0.01)
    critic = Dense([n_in, *hidden, 1], rng)
    log_sd, scale = np.full(1, float(spread)), Scale(n_in)
    optimizer = Adam([*actor.arrays, log_sd, *critic.arrays])
    length, total, curve, returns = batch // n, 0, [], np.zeros(n)
    observation, _ = environments.reset(seed=seed)
    fresh, begin = np.zeros(n, bool), time.process_time()
    while total < budget:
        seen, actions, rewards = np.zeros((length + 1, n, n_in)), np.zeros((length, n)), np.zeros((length, n))
        ended, valid, finished = np.zeros((length, n), bool), np.zeros((length, n), bool), []
        for t in range(length):
            seen[t], valid[t] = observation, ~fresh
            mean = actor(scale(observation))[:, 0]
            actions[t] = mean + np.exp(log_sd) * rng.normal(size=n)
            applied = np.clip(actions[t], space.low, space.high)[:, None]
            observation, rewards[t], terminated, truncated, _ = environments.step(applied)
            returns = np.where(fresh, 0.0, returns) + rewards[t]
            ended[t] = fresh = terminated | truncated
            finished += returns[fresh].tolist()
        seen[length] = observation
        total += int(valid.sum())
        x = scale(seen)
        values = critic(x)[..., 0]
        gains = advantages(reward_scale * rewards, values, ended, gamma, decay)
        rows = np.flatnonzero(valid)
        x, a, gains, goals = (y.reshape(length * n, -1)[rows] for y in (x[:-1], actions, gains, gains + values[:-1]))
        gains = (gains - gains.mean()) / (gains.std() + 1e-8)
        before = (a - actor(x)) / np.exp(log_sd)
        before = -0.5 * before**2 - log_sd
        step = rate * (1.0 - total / budget) if total < budget else 0.0
        for _ in range(epochs):
            order = rng.permutation(len(rows))
            for k in range(0, len(rows) - minibatch // 2, minibatch):
                part = order[k : k + minibatch]
                deviation = (a[part] - actor(x[part])) / np.exp(log_sd)
                quotient = np.exp(-0.5 * deviation**2 - log_sd - before[part])
                inside = np.where(gains[part] > 0.0, quotient < 1.0 + clip, quotient > 1.0 - clip)
                slope = -gains[part] * quotient * inside / len(part)  # of the log-probability
                gradient = actor.gradient(slope * deviation / np.exp(log_sd))
                gradient.append((slope * (deviation**2 - 1.0)).sum(axis=0) - entropy)
                error = critic(x[part]) - goals[part]
                optimizer.step([*gradient, *critic.gradient(error / len(part))], step)
        scale.update(seen[:-1].reshape(-1, n_in)[rows])
        curve.append((total, np.mean(finished) if finished else np.nan, time.process_time() - begin))
        if progress is not None:
            progress(curve[-1])
    return Policy(actor, scale, space.low, space.high), np.array(curve)
