"""Packet-level runs: simulate, pause, act on, save and resume them, in the C engine or its twin in plain Python."""

from ecc.native import OBSERVATION
from ecc.packet.ensembles import ensemble
from ecc.packet.run_batch import RunBatch
from ecc.packet.simulation import Run, resume, simulate

__all__ = ["OBSERVATION", "Run", "RunBatch", "ensemble", "resume", "simulate"]
