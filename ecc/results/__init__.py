"""Results of runs: trajectories, transients and metrics."""
