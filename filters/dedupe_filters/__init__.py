"""Chunk filters: readers skip the offset ranges without the values they want.

The idea is that of RabbitMQ 3.13's filters for streams.
"""
