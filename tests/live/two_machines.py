"""Two namespaces joined by virtual Ethernet stand for two machines: hosts here, routers there, and perhaps a stranger.

    python two_machines.py SCENARIO TOKEN_FILE SLOW FRAMES_PER_SECOND

prints as JSON what each machine printed and complained of, and what the stranger sent (`frames`) in how long
(`seconds`). The stranger is on the wire of the hosts. It takes frames of the run from there, and sends each again as
it was, altered in a bit, cut short, and with noise behind its addresses, beside frames of IPv4 that are nothing
but noise: so many in a second, 0 for none, or "inf" for as many as sendmmsg(2) takes.
"""

import ctypes
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time

from ecc.live.namespaces import NEW_NET, become_root, call
from ecc.live.netlink import new_pair, set_up

ALL_PROTOCOLS, NONE = 3, 0
SOL_PACKET, QDISC_BYPASS = 263, 20
MOST = 1024
"""Frames that one call sends."""
RENEWED = 0.1
"""s after which the stranger looks for newer frames."""


class Vector(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_char_p), ("size", ctypes.c_size_t))


class Message(ctypes.Structure):
    """struct mmsghdr."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_size", ctypes.c_uint32),
        ("vectors", ctypes.POINTER(Vector)),
        ("n_vectors", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_size", ctypes.c_size_t),
        ("flags", ctypes.c_int),
        ("sent", ctypes.c_uint),
    )


def namespace():
    """A child that has a network namespace of its own and does nothing; its number and a descriptor of that."""
    told, tells = os.pipe()
    child = os.fork()
    if child == 0:
        call("unshare", NEW_NET)
        os.write(tells, b"x")
        signal.pause()
        os._exit(0)
    os.read(told, 1)
    return child, os.open(f"/proc/{child}/ns/net", os.O_RDONLY)


def packet_socket(interface, protocol=NONE):
    one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    one.bind((interface, protocol))
    return one


def seen(tap, interface):
    """Frames that come now, but for those of this process, which sends none meanwhile."""
    found = []
    tap.bind((interface, ALL_PROTOCOLS))
    end = time.monotonic() + 0.02
    while len(found) < 16 and (left := end - time.monotonic()) > 0.0:
        if select.select([tap], [], [], left)[0]:
            found.append(tap.recv(65600))
    tap.bind((interface, NONE))
    while select.select([tap], [], [], 0.0)[0]:
        tap.recv(65600)
    return found


def altered(frame):
    at = random.randrange(14, min(100, len(frame)))
    return frame[:at] + bytes([frame[at] ^ 1 << random.randrange(8)]) + frame[at + 1 :]


def messages(frames):
    """What sendmmsg takes, and what it points to."""
    vectors = (Vector * len(frames))(*((frame, len(frame)) for frame in frames))
    batch = (Message * len(frames))()
    for message, vector in zip(batch, vectors, strict=True):
        message.vectors, message.n_vectors = ctypes.pointer(vector), 1
    return batch, vectors, frames


def annoy(wire, tap, interface, per_second, told):
    """Send until somebody writes to a pipe; how many frames, in how many seconds."""
    send = ctypes.CDLL(None, use_errno=True).sendmmsg
    wire.setsockopt(SOL_PACKET, QDISC_BYPASS, 1)
    n_sent, spent, known = 0, 0.0, []
    while not select.select([told], [], [], 0.0)[0]:
        known = (seen(tap, interface) + known)[:64]
        batch = [os.urandom(12) + b"\x08\x00" + os.urandom(200) for _ in range(MOST // 5)]
        for frame in random.choices(known, k=MOST // 5) if known else ():
            batch += [frame, altered(frame), frame[: random.randrange(34, 100)], frame[:14] + os.urandom(200)]
        random.shuffle(batch)
        size = len(batch) if per_second == float("inf") else max(1, min(len(batch), round(per_second * 1e-3)))
        array, *_kept = messages(batch)
        first, begun, n = 0, time.monotonic(), 0
        while (passed := time.monotonic() - begun) < RENEWED:
            if n > per_second * passed:
                time.sleep((n - per_second * passed) / per_second)
                continue
            count = send(wire.fileno(), ctypes.byref(array[first]), min(size, len(batch) - first), 0)
            n += max(count, 0)
            first = (first + max(count, 0)) % len(batch)
        n_sent, spent = n_sent + n, spent + time.monotonic() - begun
    return {"frames": n_sent, "seconds": spent}


def stranger(*given):
    """A child that annoys; a function that ends it and returns what it sent."""
    told, tells = os.pipe()
    heard, says = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(says, json.dumps(annoy(*given, told)).encode())
        os._exit(0)

    def end():
        os.write(tells, b"x")
        report = json.loads(os.read(heard, 1000))
        os.waitpid(child, 0)
        return report

    return end


def main(scenario, token, slow, per_second):
    become_root()
    child, there = namespace()
    here = os.open("/proc/self/ns/net", os.O_RDONLY)

    def start(machine, peer, interface, mac):
        link = f"{peer}={interface},{mac.hex(':')}"
        return subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "ecc",
                "node",
                scenario,
                str(machine),
                "--link",
                link,
                "--token-file",
                token,
                "--slow",
                slow,
                "--json",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    new_pair("a0", "b0", there, 1500)
    set_up("a0")
    wire = packet_socket("a0")
    call("setns", there, NEW_NET)
    set_up("b0")
    tap = packet_socket("b0")
    router = start(1, 0, "b0", wire.getsockname()[4])
    line = router.stderr.readline()
    assert line == "ready\n", line + router.stderr.read()
    call("setns", here, NEW_NET)
    sent = {"frames": 0, "seconds": 0.0}
    end = stranger(wire, tap, "b0", float(per_second)) if float(per_second) > 0.0 else lambda: sent
    said = start(0, 1, "a0", tap.getsockname()[4]).communicate()
    said += router.communicate(timeout=60)
    sent = end()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print(json.dumps([*said, sent]))


if __name__ == "__main__":
    main(*sys.argv[1:])
