"""SQL texts as they are written: in one form, and parsed without a loss."""
