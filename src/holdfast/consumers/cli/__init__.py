"""`holdfast consumers` and `holdfast pools`."""
