"""Plumbing that no user opens: arguments, quantities, displays, files, stores, workers, lazy imports."""
