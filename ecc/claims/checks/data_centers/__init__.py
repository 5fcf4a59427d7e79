"""Checks of claims on data center transports, one or more modules per protocol."""
