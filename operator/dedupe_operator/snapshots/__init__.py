"""DedupeSnapshots: made one partition at a time, verified, pruned; and what a lost volume is made from."""
