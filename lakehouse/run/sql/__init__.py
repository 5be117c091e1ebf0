"""SQL statements: queries of rows, now or at a moment, and of changes as they come; declarations; INSERT."""
