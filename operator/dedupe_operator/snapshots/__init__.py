"""DedupeSnapshots: scheduled, run partition by partition, verified, pruned."""
