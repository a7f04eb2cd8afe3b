"""How fast, how late and how large a worker is on the machine at hand. Run by `make bench`, never by tests."""
