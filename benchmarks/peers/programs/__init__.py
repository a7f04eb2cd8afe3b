"""What is run of each peer: its own idiom, as short as its users would write it."""
