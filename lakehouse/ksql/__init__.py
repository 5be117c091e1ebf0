"""ksqlDB's SQL: a second front to the graph that the Python API makes. A statement becomes the same nodes.

syntax/           a text becomes a statement, a frozen value, or an error that points at a place
function/         ksqlDB's functions, a record each
expression        what was written, as Spark SQL with ksqlDB's meaning
query, catalog    SELECT and CREATE as streams and tables
script            statements in their order; an application of them
"""
