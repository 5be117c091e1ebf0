"""Recovery drills, and what they found."""
