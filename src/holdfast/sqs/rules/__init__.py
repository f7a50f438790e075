"""What SQS gets to see of a message: pointers, and the names of queues."""
