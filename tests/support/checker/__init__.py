"""Record a history of topics, and judge it: did each message pass exactly once?

The checker knows Kafka only to read topics. Invariant: it imports no code that it judges (see
tests/unit/support/test_independence.py).
"""
