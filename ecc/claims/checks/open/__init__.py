"""Checks of what the papers leave open; a module has the name of its page in the documentation."""
