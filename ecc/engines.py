"""One call for a run of a scenario by any engine: `ecc.simulate`. Which engines a protocol has: `protocol.loop`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import signature
from typing import Any

from ecc._support.arguments import shown
from ecc._support.quantity import as_choice
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario

__all__ = ["ENGINES", "simulate"]

ENGINES = ("packet", "fluid", "live")


def simulate(scenario: Scenario, engine: str = "packet", **options: Any) -> Trajectory:
    """Return the run of a scenario by one of the engines.

    Parameters
    ----------
    scenario : Scenario
        Network, protocols, traffic and duration of the run.
    engine : str, optional
        "packet": every packet, header, queue and loss, in C. "fluid": rates and queues as differential equations or
        recurrences. "live": the same packets as real frames between network namespaces of Linux.
    **options : optional
        Options of `ecc.packet.simulate`, `ecc.fluid.simulate` or `ecc.live.simulate`. All three take `sample` [s],
        `start` ("empty" or "equilibrium"), `perturbation`, `record`, `progress` and `cancel`.

    Returns
    -------
    Trajectory
        Rates and goodputs (time, flow) and arrivals [bit/s], queues (time, link) [bytes] and drops [packets] of each
        sample, one row for each transfer, and `stats`.

    Raises
    ------
    ValueError
        An unknown engine, an option out of range, or a scenario that the engine cannot run.
    TypeError
        An option of another engine, or of none.
    NativeError
        The packet engine refuses the network.
    EccError
        Live runs need Linux with namespaces.

    Notes
    -----
    `ecc.packet.simulate(scenario, engine="python")` runs the packet engine in plain Python, in which `print` and a
    debugger work inside hooks.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("10 Mb/s", rtts=["50 ms"])
    >>> scenario = ecc.Scenario(net, ecc.models.QIRCP(), duration=5.0)
    >>> [round(float(ecc.simulate(scenario, engine).rate[-1, 0]) / 1e6, 1) for engine in ("packet", "fluid")]
    [9.5, 9.5]
    """
    as_choice(engine, "engine", ENGINES)
    _check_options(engine, options)
    return _simulator(engine)(scenario, **options)


def _simulator(engine: str) -> Callable[..., Trajectory]:
    return import_module(f"ecc.{engine}").simulate  # type: ignore[no-any-return]


def _options(engine: str) -> list[str]:
    """Names of the options of an engine; the packet engine's own `engine` is the parameter of `simulate` here."""
    return [name for name in signature(_simulator(engine)).parameters if name not in ("scenario", "engine")]


def _check_options(engine: str, options: dict[str, Any]) -> None:
    try:
        signature(_simulator(engine)).bind(None, **options)
    except TypeError:
        pass
    else:
        return
    accepted = _options(engine)
    for name in options:
        if name in accepted:
            continue
        accepting = [repr(other) for other in ENGINES if other != engine and name in _options(other)]
        if accepting:
            raise TypeError(f"{name} is an option of engine={' and '.join(accepting)}, got engine={engine!r}")
        raise TypeError(f"engine={engine!r} must have options among {', '.join(accepted)}, got {shown(name)}")
