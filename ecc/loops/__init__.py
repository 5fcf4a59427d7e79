"""Linear models of closed loops, one module for each kind of loop."""
