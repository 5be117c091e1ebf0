"""The Delta tables behind a silver table: created, checked and read; late records, the quarantine, the input."""
