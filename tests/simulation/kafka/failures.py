"""The errors of librdkafka, with its texts where the worker or a person reads them."""

from confluent_kafka import KafkaError, KafkaException

_FENCED_TEXT = "Local: This instance has been fenced by a newer instance"


def kafka_error(
    code: int,
    text: str | None = None,
    *,
    fatal: bool = False,
    retriable: bool = False,
    abort: bool = False,
) -> KafkaError:
    """Return an error; without a text librdkafka's own for the code."""
    return KafkaError(code, text, fatal=fatal, retriable=retriable, txn_requires_abort=abort)


def failure(
    code: int,
    text: str | None = None,
    *,
    fatal: bool = False,
    retriable: bool = False,
    abort: bool = False,
) -> KafkaException:
    """Return an exception to raise, see `kafka_error`."""
    return KafkaException(kafka_error(code, text, fatal=fatal, retriable=retriable, abort=abort))


def fenced(action: str) -> KafkaError:
    """Return the fatal error of a producer whose epoch is not the newest."""
    return kafka_error(KafkaError._FENCED, f"{action}: {_FENCED_TEXT}", fatal=True)  # noqa: SLF001 (a public name)
