"""The only room with Java objects, and with private parts of Spark, Delta and Py4J: each with a plain way beside it."""
