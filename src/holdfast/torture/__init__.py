"""`holdfast torture`: real processes, real faults, and a checker that decides from their histories alone."""
