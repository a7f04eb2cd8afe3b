"""The growth of a stream with routers: its epochs, and how a new one begins."""
