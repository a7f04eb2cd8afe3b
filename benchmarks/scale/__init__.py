"""One partition's store as it grows to 100 M ids, under a limit of its memory."""
