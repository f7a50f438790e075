"""HTTP/1.1 on one connection: read within limits, one request at a time, answered in order."""
