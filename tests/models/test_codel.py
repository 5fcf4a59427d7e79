"""CoDel by hand: when it drops by the arithmetic of RFC 8289, in both engines, and against the loop of that RFC."""

from __future__ import annotations

import math
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest

from ecc.models import ConstantRate
from ecc.network.network import Network
from ecc.packet import simulate
from ecc.queues import CoDel, codel
from ecc.scenario import Scenario

TARGET, INTERVAL, MTU = 0.005, 0.095, 1000


@pytest.mark.parametrize("engine", ["c", "python"])
def test_drops_come_when_the_control_law_says(engine):
    """One packet every 5 ms, 10 ms to send each: packet n comes to the head 10 n ms after the start, 5 n ms old.

    Packet 3, at 30 ms, is the first with two behind it; so the first drop is at the first head after 125 ms. From then
    on drops are due INTERVAL / sqrt(n) after one another: at 225, 292.2, 347.0, 394.5, 437.0, 475.8, ... ms.
    """
    network = Network.dumbbell("0.8 Mb/s", rtts=[0.1], packet_size=1000)
    protocol = {"flows": {"default": ConstantRate("1.6 Mb/s")}, "links": {0: CoDel(interval=INTERVAL)}}
    run = simulate(Scenario(network, protocol, 1.2, phase_jitter=False), trace=10**5, engine=engine)
    dropped = run.trace["time"][run.trace["event"] == "drop"].to_numpy()
    assert dropped[:7] == pytest.approx([0.13, 0.23, 0.3, 0.35, 0.4, 0.44, 0.48])
    due, expected = 0.225, [0.13]
    for count in range(1, 60):
        expected.append(math.ceil(due / 0.01 - 1e-9) * 0.01)
        due += INTERVAL / math.sqrt(count + 1)
    assert dropped == pytest.approx(expected[: len(dropped)])
    assert len(dropped) == int(run.drops.sum()) > 15


def heads_of_a_queue(seed: int, packets: int = 4000) -> list[tuple[float, int]]:
    """Arrivals and sizes: bursts and pauses over a link of 1 Mb/s."""
    rng = np.random.default_rng(seed)
    rates = np.repeat(rng.choice([60.0, 110.0, 160.0, 400.0], packets // 200), 200)  # packets/s; 125 fit
    times = np.cumsum(rng.exponential(1.0 / rates)).tolist()
    return list(zip(times, rng.choice([400, 1000], packets).tolist(), strict=True))


def by_the_rfc(arrivals: list[tuple[float, int]]) -> list[int]:
    """Indices of the dropped packets, by a queue and a server with the loops of RFC 8289, section 5.5."""
    waiting: list[int] = []
    dropped: list[int] = []
    first_above = drop_next = now = 0.0
    count = last_count = n = 0
    dropping = False

    def head() -> tuple[int | None, bool]:
        nonlocal first_above
        if not waiting:
            first_above = 0.0
            return None, False
        k = waiting.pop(0)
        if now - arrivals[k][0] < TARGET or sum(arrivals[j][1] for j in waiting) <= MTU:
            first_above = 0.0
        elif first_above == 0.0:
            first_above = now + INTERVAL
        else:
            return k, now >= first_above
        return k, False

    while n < len(arrivals) or waiting:
        if not waiting:
            now = max(now, arrivals[n][0])
        while n < len(arrivals) and arrivals[n][0] <= now:
            waiting.append(n)
            n += 1
        k, ok = head()
        if dropping:
            dropping = ok
            while dropping and now >= drop_next:
                dropped.append(k)
                count += 1
                k, ok = head()
                dropping = ok
                if ok:
                    drop_next += INTERVAL / math.sqrt(count)
        elif ok:
            dropped.append(k)
            k, ok = head()
            dropping = True
            delta, count = count - last_count, 1
            if delta > 1 and now - drop_next < 16.0 * INTERVAL:
                count = delta
            drop_next = now + INTERVAL / math.sqrt(count)
            last_count = count
        if k is not None:
            now += arrivals[k][1] * 8.0 / 1e6
    return dropped


def state() -> SimpleNamespace:
    return SimpleNamespace(**{f.name: list(f.default) for f in fields(CoDel.LinkState)})


def by_the_hook(arrivals: list[tuple[float, int]]) -> list[int]:
    """The same with the hook, packet by packet."""
    p = CoDel(interval=INTERVAL, packet_size=MTU).namespace()
    link = state()
    waiting: list[int] = []
    dropped: list[int] = []
    now, n = 0.0, 0
    while n < len(arrivals) or waiting:
        if not waiting:
            now = max(now, arrivals[n][0])
        while n < len(arrivals) and arrivals[n][0] <= now:
            waiting.append(n)
            n += 1
        while waiting:
            queue, k = sum(arrivals[j][1] for j in waiting), waiting.pop(0)
            arrived, size = arrivals[k]
            env = SimpleNamespace(
                now=now, sojourn=now - arrived, queue=queue, packet_size=size, ecn=0, drop=0, mark=0, queue_index=0
            )
            codel.on_dequeue(link, None, p, env)
            if not env.drop:
                now += size * 8.0 / 1e6
                break
            dropped.append(k)
    return dropped


@pytest.mark.parametrize("seed", range(4))
def test_the_hook_drops_what_the_loop_of_the_rfc_drops(seed):
    arrivals = heads_of_a_queue(seed)
    expected = by_the_rfc(arrivals)
    assert len(expected) > 100
    assert by_the_hook(arrivals) == expected


def test_a_mark_is_a_step_of_the_control_law():
    """Marked packets are sent: one a head, at the times at which others would be dropped, and none beyond."""
    p = CoDel(interval=INTERVAL, mark=True).namespace()
    link, marked = state(), []
    for n in range(60):
        env = SimpleNamespace(
            now=0.01 * n, sojourn=0.02, queue=9000, packet_size=1000, ecn=2, drop=0, mark=0, queue_index=0
        )
        codel.on_dequeue(link, None, p, env)
        assert env.drop == 0
        if env.mark:
            marked.append(n)
    assert marked[:5] == [10, 20, 27, 32, 37]  # due at 0.095, 0.195, 0.2622, 0.3170, 0.3645 s


def test_a_short_queue_is_left_alone():
    """Below the target, or with no more than a packet behind, nothing is chosen however long that lasts."""
    p = CoDel().namespace()
    for sojourn, queue in ((0.0049, 9000), (0.5, 2000)):
        link = state()
        for n in range(100):
            env = SimpleNamespace(
                now=0.01 * n, sojourn=sojourn, queue=queue, packet_size=1000, ecn=0, drop=0, mark=0, queue_index=0
            )
            codel.on_dequeue(link, None, p, env)
            assert env.drop == env.mark == 0
