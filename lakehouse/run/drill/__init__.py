"""Recovery drills, and their results."""
