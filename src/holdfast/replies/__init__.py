"""Replies: a message whose sender waits for the answer."""
