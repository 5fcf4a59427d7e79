"""Transfers that arrive during a run: workloads, and connection vectors of Tmix."""
