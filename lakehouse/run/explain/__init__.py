"""Why a row is what it is: the records behind one key, and those as a test."""
