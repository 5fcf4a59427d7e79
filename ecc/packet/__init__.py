"""Packet-level runs: the face of the C engine, and its twin in plain Python."""

from ecc.packet.simulation import Run, resume, simulate

__all__ = ["Run", "resume", "simulate"]
