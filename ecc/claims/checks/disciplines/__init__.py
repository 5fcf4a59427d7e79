"""Checks of claims on queue disciplines."""
