"""Conformance: cases that run a controller in packets and compare its behavior with its specification."""
