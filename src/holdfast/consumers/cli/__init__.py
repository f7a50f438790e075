"""`holdfast consumers`, `attach`, `detach` and `attachments`."""
