"""Dead letters: found, replayed, deleted."""
