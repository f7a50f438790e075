"""Notices: who answers for dead letters and other trouble."""
