"""What must be true before a message counts as done, and what the checks said."""
