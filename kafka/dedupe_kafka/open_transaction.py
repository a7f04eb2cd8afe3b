"""The error that names an open transaction, for all who wait for its end."""

from dedupe_kafka.errors import OpenTransaction


def open_transaction(
    topic: str, partition: int, stable: int, end: int, servers: str
) -> OpenTransaction:
    """Return the error that names an open transaction and the remedies.

    `abort` is only for one that no coordinator knows: of any other, a producer that is still there would commit what it
    sends after the abort, without what it has sent before.
    """
    tool = f"kafka-transactions.sh --bootstrap-server {servers}"
    where = f"--topic {topic} --partition {partition}"
    return OpenTransaction(
        f"{topic}/{partition}: a transaction of another producer is open since offset {stable}, so records from there "
        f"to the end at {end} can't be read; waiting for its end. "
        f"If `{tool} find-hanging {where} --max-transaction-timeout 0` lists it, it has no end: "
        f"abort it with `{tool} abort {where} --start-offset {stable}`. "
        "If not, it ends at the latest after its producer's transaction.timeout.ms. To end it earlier, find the id of "
        f"its producer with `{tool} describe-producers {where}` and the transactional id with `{tool} list`. "
        "If that producer is gone, fence it with "
        f"`{tool} forceTerminateTransaction --transactionalId ID` (Kafka 4.1 and later)"
    )
