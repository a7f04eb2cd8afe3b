"""Chunk filters: what a reader that wants few values need not fetch. After RabbitMQ 3.13's filters for streams."""
