"""Bytes to rows and back: JSON, delimited (CSV), and Kafka's primitives. No Spark in here.

A row is a dict of column name -> Python value: timestamps are datetimes in UTC, dates `datetime.date`,
decimals `Decimal` with the scale of their type, binaries `bytes`, structs and maps dicts, arrays lists.
"""
