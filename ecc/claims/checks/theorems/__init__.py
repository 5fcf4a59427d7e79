"""Checks of theorems and closed forms of the papers, compared with runs."""
