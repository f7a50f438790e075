"""Periodic work, done in every process that runs consumers, by one of them at a time."""
