"""Checks of claims on queue disciplines, module by module as their entries."""
