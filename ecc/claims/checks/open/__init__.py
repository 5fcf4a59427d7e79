"""Checks of open questions of the papers; each module has the name of its page in the documentation."""
