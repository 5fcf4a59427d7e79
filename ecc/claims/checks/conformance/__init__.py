"""Conformance: cases that run a controller on packets and compare what it does with what its specification says."""
