"""Checks of claims on transports of data centers, a module or two a protocol."""
