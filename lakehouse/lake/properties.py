"""What a table's Delta properties say of it, beside the declaration (`lakehouse.plan.evolution.change`)."""

KEY = "lakehouse.key"  # the names of its key columns, joined by commas
# Of a restored table: offsets that it holds already, {topic id: {partition: first offset to apply}}; of which topic it
# was made, up to where (`lakehouse.run.start.standing`); where its clock stood (`lakehouse.spark.operators.clock`).
SKIP = "lakehouse.skip"
RESTORED = "lakehouse.restored"
CLOCK = "lakehouse.clock"
