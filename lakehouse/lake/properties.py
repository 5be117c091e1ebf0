"""The names of a table's Delta properties that are not its declaration (`lakehouse.plan.evolution.change`).

And what the commits say that set properties, and nothing else.
"""

KEY = "lakehouse.key"  # the names of its key columns, joined by commas
# Of a restored table: the offsets that it holds already, {topic id: {partition: first offset to apply}}; the topic it
# came from, and up to where (`lakehouse.run.start.standing`); where its clock was (`lakehouse.spark.operators.clock`).
SKIP = "lakehouse.skip"
RESTORED = "lakehouse.restored"
CLOCK = "lakehouse.clock"
# Of one behind a join of streams: the offsets from which covered records can still meet later ones.
NEEDED = "lakehouse.needed"
# Of a table that reads tables: the tick of the last intervention in the lake when it was created.
BEGAN = "lakehouse.began"

# The operations of such commits: no row changes in them.
NEW_DECLARATION = "new declaration"
RETENTION = "retention"
