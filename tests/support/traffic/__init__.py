"""Traffic of producers, readers and administrators: streams, messages, filters."""
