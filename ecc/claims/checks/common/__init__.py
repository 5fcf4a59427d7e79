"""What checks share: evidence from runs, recurrences of the laws, bisection."""
