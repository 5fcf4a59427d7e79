"""Packet-level runs: simulate, pause, save and resume them, in the C engine or its twin in plain Python."""

from ecc.packet.ensembles import ensemble
from ecc.packet.simulation import Run, resume, simulate

__all__ = ["Run", "ensemble", "resume", "simulate"]
