"""The names of a table's Delta properties, except those of its declaration (`lakehouse.plan.evolution.change`).

And the operations of the commits that only set properties.
"""

KEY = "lakehouse.key"  # the names of its key columns, joined by commas
# Of a restored table: the offsets that it contains already, {topic id: {partition: first offset to apply}}; its topic,
# and up to where (`lakehouse.run.start.resume_point`); its clock (`lakehouse.spark.fold.clock`).
SKIP = "lakehouse.skip"
RESTORED = "lakehouse.restored"
CLOCK = "lakehouse.clock"
# Of a table behind a join of streams: the offsets from which covered records can still meet later ones.
NEEDED = "lakehouse.needed"
# Of a table that reads tables: the tick of the last intervention in the lake when it was created.
BEGAN = "lakehouse.began"

# The operations of commits that change no row.
NEW_DECLARATION = "new declaration"
RETENTION = "retention"
ERASURE = "erasure"
