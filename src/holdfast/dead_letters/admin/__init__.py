"""Dead letters over HTTP, one by one and in bulk."""
