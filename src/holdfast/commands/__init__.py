"""Commands: named functions with typed input."""
