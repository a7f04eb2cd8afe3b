"""The base of every benchmark: broker, processes, messages, meters, checks."""
