"""SQL that asks: a table's rows now or at a moment, changes as they come, what is declared; and records to insert."""
