"""Checks of claims on Internet transports, one or two modules per protocol."""
