"""DedupeSnapshots: created by schedule, run one partition at a time, verified, pruned."""
