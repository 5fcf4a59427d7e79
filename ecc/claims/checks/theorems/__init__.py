"""Checks of theorems and closed forms of the papers, and of what runs do beside them."""
