"""Take the 16-byte id of a record, by key, header, JSON path or content."""
