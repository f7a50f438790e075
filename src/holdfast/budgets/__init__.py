"""What work may cost: reports of spending while it goes on, budgets of messages and queues."""
