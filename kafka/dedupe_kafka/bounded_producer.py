"""A producer whose calls end in time.

`Clients` has it in place of the library's own. Invariant: a call that comes back late is of a transaction that the next
session has fenced.
"""

from concurrent.futures import Future
from threading import Thread
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from dedupe_crds.deadline import Deadline

# The client's own error comes first where it keeps to its time.
_GRACE_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.5


class BoundedProducer(Producer):
    """A producer that does not wait for a call beyond its time-out.

    librdkafka waits for a group coordinator that is away, however long
    (https://github.com/confluentinc/librdkafka/issues/5456, seen with 2.16.1).
    """

    def send_offsets_to_transaction(
        self,
        positions: list[TopicPartition],
        group_metadata: Any,  # noqa: ANN401 (the library's)
        timeout: float = -1.0,
    ) -> None:
        """Add offsets of a group to the transaction, within `timeout` seconds.

        A negative one is none. Raises KafkaException. After `_TIMED_OUT` the call may still wait, so this producer is
        of no more use.
        """
        done: Future[None] = Future()

        def call() -> None:
            try:
                super(BoundedProducer, self).send_offsets_to_transaction(
                    positions, group_metadata, timeout
                )
            except BaseException as error:  # noqa: BLE001 (the caller gets it)
                done.set_exception(error)
            else:
                done.set_result(None)

        # A daemon, so that no process waits for it at its end.
        Thread(target=call, name="send-offsets", daemon=True).start()
        deadline = Deadline(float("inf") if timeout < 0 else timeout + _GRACE_SECONDS)
        while True:
            try:
                return done.result(min(_POLL_SECONDS, deadline.remaining()))
            except TimeoutError:
                self.poll(0)  # lets the client report why it cannot reach Kafka
            if deadline.expired:
                late = f"no answer of the group coordinator within {timeout:.0f} s"
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, late))  # noqa: SLF001 (a public name)
