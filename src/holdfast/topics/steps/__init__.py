"""Topics and groups in the database."""
