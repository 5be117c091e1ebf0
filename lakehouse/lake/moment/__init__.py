"""Which version, which ticks and which rows a moment of the past is."""
