"""The rules of topics and groups: names and patterns, settings, retention, liveness."""
