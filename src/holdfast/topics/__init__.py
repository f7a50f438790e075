"""Topics and their groups."""
