"""Budgets in the database: spend reports, added up under the claim's token, and queues whose budget is spent."""
