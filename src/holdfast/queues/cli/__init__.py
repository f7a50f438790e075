"""`holdfast queues`."""
