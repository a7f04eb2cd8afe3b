"""`dedupe size`: the disk, memory and CPU that a stream needs."""
