"""Why a row is what it is: the records behind one key, also as a test."""
