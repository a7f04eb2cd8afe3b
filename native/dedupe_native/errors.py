"""Errors of the extension, as those of the client library.

So `kafka_error` names them, and everything above sees the errors that it knows.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from dedupe_native._native import NativeError


@contextmanager
def kafka_exceptions() -> Iterator[None]:
    """Raise KafkaException for an error of the extension."""
    try:
        yield
    except NativeError as error:
        code, reason = error.args
        raise KafkaException(KafkaError(code, reason)) from error
