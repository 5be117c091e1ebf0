"""ksqlDB's SQL: a second way, beside the Python API, to build the graph. A statement becomes the same nodes.

syntax/           a text becomes a statement, a frozen value, or an error that points at a place
function/         ksqlDB's functions, a record each
avro/             columns that a statement does not name, out of pinned schemas in Avro
expression        expressions as Spark SQL, with ksqlDB's meaning
query, catalog    SELECT and CREATE as streams and tables
script            statements in their order, and the application that they make
"""
