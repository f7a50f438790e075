"""`holdfast check`, `fmt`, `plan` and `apply`."""
