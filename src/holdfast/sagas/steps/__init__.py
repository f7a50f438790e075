"""Sagas in the database: moved on in the transaction that ends a message of one of their steps."""
