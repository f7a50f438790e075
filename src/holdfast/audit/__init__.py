"""The audit: what operators did."""
