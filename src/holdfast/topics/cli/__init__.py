"""`holdfast topics` and `groups`."""
