"""Messages, one by one: where each is, and what became of it."""
