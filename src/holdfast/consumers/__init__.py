"""Running consumers and pools as operators see them, and the queues they are attached to."""
