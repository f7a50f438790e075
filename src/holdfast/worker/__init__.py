"""Consumers at work: claiming ahead, running handlers, keeping leases, stopping well.

Nothing in here knows a database: everything is done through the client.
"""
