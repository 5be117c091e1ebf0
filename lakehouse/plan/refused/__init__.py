"""What a wrong declaration is told: a near word, the functions that there are, a name, the step to take."""
