"""`holdfast topics` and `holdfast groups`."""
