"""The former place of the contract of a protocol: `ecc/contract/protocol.py` explains how to write one."""

from ecc._support.quantity import PER_TIME, RATE, SIZE, TIME, Dimension
from ecc.contract.choices import (
    ECN_ECHOES,
    JUMPS,
    LOST_RETRANSMISSIONS,
    N_TIMERS,
    PHASE_JITTERS,
    PRR_USES,
    SCHEDULERS,
    SOURCE_CLOCKS,
    STATE_CLOCKS,
    TRANSPORTS,
)
from ecc.contract.env import FlowEnv, FluidEnv, Hook, LinkEnv, NoRecord, Params
from ecc.contract.equilibrium import Bound, Equilibrium, RelayLoop
from ecc.contract.forms import (
    FluidForm,
    GrantedWindows,
    OperatingRange,
    Queues,
    SampledPrices,
    StateMachine,
    SteppedRates,
)
from ecc.contract.parameters import check_choice, check_number, dimensions_of, interval_of, label, settings
from ecc.contract.protocol import Protocol
from ecc.contract.states import RESERVED_NAMES, State
from ecc.contract.values import clock_of_states, equilibrium_of, record_at, state_at, states_of

__all__ = [
    "Bound", "Dimension", "ECN_ECHOES", "Equilibrium", "FlowEnv", "FluidEnv", "FluidForm", "GrantedWindows", "Hook",
    "JUMPS", "LOST_RETRANSMISSIONS", "LinkEnv", "N_TIMERS", "NoRecord", "OperatingRange", "PER_TIME",
    "PHASE_JITTERS", "PRR_USES", "Params", "Protocol", "Queues", "RATE", "RESERVED_NAMES", "RelayLoop", "SCHEDULERS",
    "SIZE", "SOURCE_CLOCKS", "STATE_CLOCKS", "SampledPrices", "State", "StateMachine", "SteppedRates", "TIME",
    "TRANSPORTS", "check_choice", "check_number", "clock_of_states", "dimensions_of", "equilibrium_of",
    "interval_of", "label", "record_at", "settings", "state_at", "states_of",
]  # fmt: skip
