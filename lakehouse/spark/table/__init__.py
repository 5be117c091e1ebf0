"""The Delta tables behind a silver table: made, checked and read; late records, the quarantine, what it takes in."""
