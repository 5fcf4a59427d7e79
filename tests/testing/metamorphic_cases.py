"""Cases of the metamorphic suite: protocols and disciplines, transformations, and exceptions with their reasons."""

from dataclasses import dataclass
from importlib import import_module

from ecc import Flow, Link, Network, Scenario, models, queues, testing
from ecc._support.quantity import RATE, SIZE, TIME

FAST_NETWORKS = (
    "DCQCN",
    "ExpressPass",
    "HPCC",
    "NSCC",
    "PatchedTIMELY",
    "PowerTCP",
    "SPERC",
    "Swift",
    "ThetaPowerTCP",
    "TIMELY",
)
"""Protocols for data centers, which run on links of 10 and 16 Gb/s with RTTs of some 20 us."""

PARAMETERS = {
    "ConstantRate": {"rate": "4 Mb/s"},
    "DCQCN": {"line_rate": "16 Gb/s"},
    "ExpressPass": {"line_rate": "16 Gb/s"},
    "HPCC": {"line_rate": "16 Gb/s", "base_rtt": "30 us"},
    "NSCC": {"line_rate": "16 Gb/s", "network_rtt": "30 us"},
    "PowerTCP": {"line_rate": "16 Gb/s", "base_rtt": "30 us"},
    "Swift": {"hop_scaling": 0.0},  # a second link would raise the target otherwise
    "ThetaPowerTCP": {"line_rate": "16 Gb/s", "base_rtt": "30 us"},
    "Policer": {"rate": "6 Mb/s", "burst": 30_000},
    "Trimming": {"limit": 30_000.0, "min_threshold": 5000.0, "max_threshold": 20_000.0},
}
"""Parameters that fit the networks below, if the defaults do not."""


def _kinds(module, others):
    found = ((name, getattr(module, name)) for name in module.__all__ if name not in others)
    return {name: kind for name, kind in found if isinstance(kind, type) and issubclass(kind, models.Protocol)}


PROTOCOLS = _kinds(models, ("Protocol",))
DISCIPLINES = _kinds(queues, ("QueueDiscipline",))


def scenario(name):
    """Return three flows over two links, with starts, delays and transmission times that are whole picoseconds."""
    parameters = PARAMETERS.get(name, {})
    if name in DISCIPLINES:
        sized = {"packet_size": 500.0} if issubclass(DISCIPLINES[name], queues.QueueDiscipline) else {}
        protocol = {"flows": models.NewReno(ecn=True), "links": DISCIPLINES[name](**sized, **parameters)}
    else:
        protocol = PROTOCOLS[name](**parameters)
    if name == "NSCC":
        protocol = {"flows": protocol, "links": queues.RampMarking(packet_size=500.0)}
    if name in FAST_NETWORKS:
        links = [Link("10 Gb/s", "5 us", buffer="60 kB"), Link("16 Gb/s", "8 us", buffer="80 kB")]
        starts, delays, duration = (0.0, 13.1e-6, 3.7e-6), (1.012345e-6, 2.345678e-6, 1.371234e-6), 1e-3
    else:
        links = [Link("10 Mb/s", "5 ms", buffer="60 kB"), Link("16 Mb/s", "8 ms", buffer="80 kB")]
        starts, delays, duration = (0.0, 0.0131, 0.0037), (0.010123457, 0.023456789, 0.0137123), 2.0
    flows = [
        Flow(route, start=start, access_delay=delay, packet_size=500)
        for route, start, delay in zip(([0, 1], [0], [1]), starts, delays, strict=True)
    ]
    return Scenario(Network(links, flows), protocol, duration, phases=[0.25, 0.6], phase_jitter=False)


TRANSFORMATIONS = {
    "relabeled flows": lambda original: testing.relabel_flows(original, [2, 0, 1]),
    "permuted links": lambda original: testing.permute_links(original, [1, 0]),
    "idle flow": lambda original: testing.add_idle_flow(original, like=1, index=0),
    "unused link": lambda original: testing.add_unused_link(original, index=0),
    "idle flow at the end": lambda original: testing.add_idle_flow(original, like=1),
    "unused link at the end": lambda original: testing.add_unused_link(original),
    "sizes": lambda original: testing.scale_sizes(original, 2.0),
    "times": lambda original: testing.scale_times(original, 2.0),
    "links in series": lambda original: testing.split_link(original, 0, 2e5),
}
NUMBERED = ("relabeled flows", "permuted links", "idle flow", "unused link")
"""Transformations that change the numbers of flows or links."""


@dataclass(frozen=True)
class Constant:
    """A constant of a protocol with a dimension, which its specification fixes: no parameter has it."""

    owner: object
    name: str
    dimension: object


def _of(path, dimension, *names):
    module, _, kind = path.partition(":")
    owner = import_module(f"ecc.models.{module}")
    return [Constant(getattr(owner, kind) if kind else owner, name, dimension) for name in names]


_BBR = [
    *_of("bbr", TIME, "WAIT", "WAIT_SPREAD", "QUANTUM_TIME"),
    *_of("bbr", SIZE, "MAX_QUANTUM"),
    *_of("shared.bbr_parts", TIME, "FIRST_RTT"),
    *_of("shared.bbr_fluid", TIME, "MS", "EDGE", "WAIT", "SPREAD"),
]
CONSTANTS = {
    "Aurora": _of("policy", TIME, "FIRST_RTT"),  # its first rate is an initial window per 0.1 s
    "BBR": _BBR,  # waits of 2 to 3 s between probes, quanta of 1 ms and at most 64 KiB (draft-ietf-ccwg-bbr)
    "BBRv1": [
        *_of("bbr1", TIME, "QUANTUM_TIME", "AGGREGATION_TIME"),
        *_of("bbr1", SIZE, "MAX_QUANTUM"),
        *_of("bbr1", RATE, "TWO_PACKET_RATE"),
        *_of("shared.bbr_parts", TIME, "FIRST_RTT"),
        *_of("shared.bbr_fluid", TIME, "MS", "EDGE", "WAIT", "SPREAD"),
    ],
    "BBRv2": _BBR,
    "C4": [  # sensitivity by rate, margins of delay in ms (draft-huitema-ccwg-c4-spec)
        *_of("c4", RATE, "LOW_RATE", "MIDDLE_RATE", "HIGH_RATE", "FIRST_RATE"),
        *_of("c4", TIME, "MIN_RTT", "MARGIN", "MAX_THRESHOLD", "JITTER_RTT"),
    ],
    "NSCC": [  # constants are those of 100 Gb/s and 12 us, and delays below 1 us count as none
        *_of("nscc", RATE, "REFERENCE_RATE"),
        *_of("nscc", TIME, "REFERENCE_RTT", "FAST"),
    ],
    "PIQIRCP": _of("piqi_rcp:PIQIRCP", SIZE, "opening_size"),  # a probe of 40 bytes opens a connection
    "Policy": _of("policy", TIME, "FIRST_RTT"),
    "Prague": [*_of("prague", RATE, "GROWTH_RATE"), *_of("prague", TIME, "GROWTH_TIME")],  # tcp_prague.c
    "QIRCP": _of("qi_rcp:QIRCP", SIZE, "opening_size"),
    "RCP": _of("rcp:RCP", SIZE, "opening_size"),
    "SPERC": _of("sperc:SPERC", SIZE, "opening_size"),  # control packets of 64 bytes
    "XCP": [  # ns-2's 1 s for openings, 2 ms of the draft in which the lowest queue is sought at least
        *_of("xcp:XCP", SIZE, "opening_size"),
        *_of("xcp", TIME, "HANDSHAKES", "MIN_QUEUE_INTERVAL"),
    ],
}
"""Constants that have to be scaled with all other sizes, rates and times for results to be the same."""

NO_FLUID = (
    "C4",
    "CAKE",
    "COBALT",
    "ConstantRate",
    "ExpressPass",
    "GCC",
    "GSP",
    "SPERC",
    "Trimming",
    "Vivace",
)
"""Protocols and disciplines that have packets only."""

ROUNDED = "gaps between packets are rounded to whole picoseconds, and the loop amplifies the difference"
SECONDS = "a feature of its network is the length of an interval in seconds"
REPORTS = "reports round arrivals to 1/1024 s and their own times to 1/65536 s"
DELAYED = "the second link delays packets by some picoseconds, and the loop amplifies the difference"
EXCEPTIONS = {
    ("packet", "times"): {
        "DCQCN": ROUNDED,
        "HPCC": ROUNDED,
        "GCC": REPORTS,
        "Orca": SECONDS,
        "SCReAM": REPORTS,
        "Vivace": "the utility is a power of the rate in Mb/s, and the first RTT is taken to be 0.1 s",
    },
    ("packet", "sizes"): {
        "CAKE": "a turn has the 1514 bytes of an Ethernet frame",
        "Vivace": "the utility is a power of the rate in Mb/s",
    },
    ("packet", "later starts"): {
        **dict.fromkeys(("EMKC", "EMKCAVQ", "MKC", "XCP"), "routers measure idle links before flows start"),
        **dict.fromkeys(
            ("DualPI2", "PI", "PI2", "REM"), "each tick of a router takes a number of its random stream (S-8)"
        ),
        "Vivace": "sums of products of times are rounded differently, and the loop amplifies the difference",
    },
    ("packet", "links in series"): {
        "Aurora": DELAYED,
        "HPCC": DELAYED,
        "Kelly": "prices of links add up, and that of an unloaded link is y/C",
        "PowerTCP": "Algorithm 1 counts no time if no link reports a power above 0, which the second link always does",
        "Policy": DELAYED,
        "Vivace": DELAYED,
        "XCP": "a router grants nothing before it has counted packets for an interval, and the second one counts later",
    },
    ("fluid", "times"): {"Orca": SECONDS},
    ("fluid", "links in series"): {
        "AVQ": "a delay that differs by 10 us changes which of the windows jump next, and the rates by 6 %",
        "PowerTCP": "Algorithm 1 counts no time if no link reports a power above 0, which the second link always does",
        "XCP": "a router grants nothing before it has counted packets for an interval, and the second one counts later",
    },
    ("fluid", "relabeled flows"): {
        "BBRv1": "the phases of probes follow from the index of the flow (Scherrer et al. 2022, sec. 3)",
    },
    ("fluid", "permuted links"): {"DualPI2": "random numbers are drawn by link"},
    ("fluid", "unused link"): {"DualPI2": "random numbers are drawn by link"},
}
"""Exceptions by definition: (engine, transformation) -> name -> reason. A test fails if one is not needed."""

LAST_BITS = {
    ("fluid", "times", "CUBIC"): 1e-12,  # the cube root of a scaled time is rounded differently
    ("fluid", "sizes", "DCQCN"): 1e-6,  # the tolerance of the solver, which takes other steps after a rounding
    ("fluid", "times", "DCQCN"): 1e-6,
}
"""Largest deviation of results that are equal but for rounding."""


def random_by_number(engine, transformation, original):
    """Whether a packet run draws random numbers whose streams have the numbers that a transformation changes (S-7)."""
    deployment = original.deployment
    drawing = {
        "flow": any("random" in protocol.required_env for protocol in deployment.flows),
        "link": any("random" in protocol.required_env for some in deployment.links for protocol in some),
    }
    kind = "flow" if "flow" in transformation else "link"
    return engine == "packet" and transformation in NUMBERED and drawing[kind]
