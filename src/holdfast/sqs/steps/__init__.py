"""Messages that SQS delivers, in the database: handed over as pointers, confirmed, and claimed by pointer."""
