"""SQL texts as written: in a canonical form, and parsed without loss."""
