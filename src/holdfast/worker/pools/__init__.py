"""Several of a consumer, as many as the work needs: scaled, restarted, given up."""
