"""Many runs: sweeps with stores, Snakefiles, clusters."""
