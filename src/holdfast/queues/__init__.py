"""Queues: declared by name, paused, looked at, purged."""
