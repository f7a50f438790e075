"""The one machine of all queues and topics: insert, claim, settle, expire, bury. Shared by both databases."""
