"""`holdfast queues` and `peek`."""
