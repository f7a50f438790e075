"""How messages get to those who claim them, where that is not the database itself: through SQS."""
