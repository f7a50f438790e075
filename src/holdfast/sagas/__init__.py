"""Sagas: several steps that all happen, or are undone."""
