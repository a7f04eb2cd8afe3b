"""A router: it sends each record of the inputs to the partition of its id."""
