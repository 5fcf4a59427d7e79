"""Code shared by the checks: evidence from runs, recurrences of the laws, bisection."""
