"""Schedules: messages that are sent by the clock."""
