"""Many windows that are halved one at a time: how their sum responds to the probability of a mark.

The linear models of `ecc` (Misra, Gong, Towsley 2000) let every mark act on a mean window. Here each mark acts on one
window, of a density f(w, t), as in Baccelli, McDonald, Reynier 2002. Time is in RTTs, of what ACKs clock; windows are
in packets, and of a window w whole packets, w - 1/2 on the average, are on their way:

    df/dt + d(g f)/dw = -P r f + P [2 r f](2 w + 1/2) d(t - dead)    g = 1 - 1/w   grows by a packet in an RTT
                                                                     r = w - 1     of the window sent an RTT ago
    rate of what is cut by w: P [2 r f](2 w + 1/2); of it 3/4 leaves the queue at once, 1/4 an RTT later

A window that is cut sends nothing until half of its packets are acknowledged. These come in bursts, which the next cuts
halve again: a flow is one burst in an RTT. A mark in its first half silences the rest of that burst at once; one in its
second half silences what is left of it, half of the cut on the average, and the rest an RTT later. The echo of the mark
stops at the packet with CWR, which is sent right after that: until it is acknowledged windows do not grow, and further
marks are ignored, for one RTT or two, of which bursts use 1.25 on the average.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

DEAD, LATE = 1.25, 0.25  # RTTs; share of a cut


class Windows:
    """Windows under a constant probability p: their mean, and its response to small changes of p.

    `packet` 0 leaves out that packets are whole; `dead` and `late` 0, that a cut takes time.
    """

    def __init__(self, p, packet=1.0, dead=DEAD, late=LATE, step=0.25):
        self.p, self.dead, self.late = p, dead, late
        size = np.sqrt(2.0 / p)
        h = self.h = step
        w = h * np.arange(int(4.0 * size / h) + 1)
        self.on_the_way = w - 0.5 * packet
        self.marked = np.maximum(w - packet, 0.0)
        self.growth = 1.0 - packet / np.maximum(w, 1.5) if packet else np.ones(len(w))
        half = np.arange(len(w))
        twice = 2 * half + round(0.5 * packet / h)
        half, twice = half[twice < len(w)], twice[twice < len(w)]
        self.cut = np.zeros((len(w), len(w)))
        self.cut[half, twice] = 2.0 * self.marked[twice]
        a = self._moves(0.0)
        b = np.zeros(len(w))
        k = len(w) // 4
        a[k], b[k] = h, 1.0  # one of the equations follows from all others
        f = np.linalg.solve(a, b)
        self.f = f / (h * np.sum(f + dead * p * (self.cut @ f)))

    def _moves(self, s):
        """(s + d(g .)/dw + losses - gains) by differences between neighbors, central; the density is 0 at 0."""
        a = self.p * np.exp(-s * self.dead) * self.cut - np.diag(s + self.p * self.marked)
        out = np.zeros_like(a)
        out[1:] = -0.5 * (a[1:] + a[:-1])
        k = np.arange(1, len(a))
        out[k, k] += self.growth[1:] / self.h
        out[k, k - 1] -= self.growth[:-1] / self.h
        out[0, 0] = 1.0
        return out

    @cached_property
    def mean(self):
        """Packets on their way, of a flow."""
        cut = self.p * (self.cut @ self.f)
        return self.h * self.on_the_way @ (self.f + (self.dead + self.late) * cut)

    def response(self, s):
        """Of the mean to the probability; s in 1/RTT."""
        f, after = self.f, np.exp(-s * self.dead)
        source = after * (self.cut @ f) - self.marked * f
        b = np.zeros(len(f), complex)
        b[1:] = 0.5 * (source[1:] + source[:-1])
        moved = np.linalg.solve(self._moves(complex(s)), b)
        cut = self.p * (self.cut @ moved) + self.cut @ f
        waits = (1.0 - after) / s + self.late * (1.0 - np.exp(-s)) / s
        return self.h * self.on_the_way @ (moved + waits * cut)


class MeanWindow:
    """The same of one window that is the mean of all: w' = 1 - p w w/2, in RTTs."""

    def __init__(self, p):
        self.p, self.mean = p, np.sqrt(2.0 / p)

    def response(self, s):
        return -0.5 * self.mean**2 / (s + 2.0 / self.mean)
