"""What the message about a wrong declaration says besides: a near word, a declaration's name, the step to take."""
