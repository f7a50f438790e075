"""What runs: consumers, and the programs they start."""
