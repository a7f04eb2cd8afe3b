"""Name what keeps the operator from asking Kafka, for the status of a stream.

The watches of Kafka call it. Pure.
"""

from typing import Final

from confluent_kafka import KafkaError

from dedupe_kafka.errors import BrokerUnavailable, NotAuthorized, StreamError
from dedupe_operator.decide.diagnosis import Problem

_REFUSED: Final = KafkaError._AUTHENTICATION  # noqa: SLF001 (its public name)


def problem_of(error: StreamError, servers: str) -> Problem:
    """Return the problem that a stream's status shows for an error.

    Whoever creates a stream chooses the addresses that the operator connects to. So a failure to speak with one has the
    same words for each cause: otherwise they would show which ports are open, and what answers there. The log has the
    cause.
    """
    if is_silence(error) and error.kafka_code != _REFUSED:
        return Problem(
            reason=BrokerUnavailable.__name__,
            message=f"no answer as of a Kafka cluster from {servers}: check spec.kafka.bootstrapServers, the security "
            "protocol and certificates in the Secret, and that network policies let the operator connect; the "
            "operator's log has the error of its client",
        )
    if error.kafka_code in {_REFUSED, KafkaError.SASL_AUTHENTICATION_FAILED}:
        return Problem(
            reason=NotAuthorized.__name__,
            message=f"{servers} refuses the credentials: check the Secret of spec.kafka.configSecretRef; the "
            "operator's log has the error of its client",
        )
    return Problem(reason=error.reason, message=str(error))


def is_silence(error: StreamError) -> bool:
    """Return whether an error comes from the attempt to reach Kafka, not from Kafka."""
    reached = error.kafka_code is not None and error.kafka_code > 0
    return isinstance(error, BrokerUnavailable | NotAuthorized) and not reached
