"""Advice for a wrong declaration: a similar word, the existing functions, a name, the step to take."""
