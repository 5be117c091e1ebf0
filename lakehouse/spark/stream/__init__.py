"""The records of a stream in a batch: decodes them, runs the stream's steps, joins them with tables."""
