"""Checks of claims on transports of the Internet, a module a protocol."""
