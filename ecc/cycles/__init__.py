"""Limit cycles of closed loops, with the multipliers of deviations from them."""
