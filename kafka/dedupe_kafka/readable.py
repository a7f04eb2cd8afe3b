"""Ask for offsets of the partitions that can be read, and for why others cannot.

One partition without a leader keeps the answer about all others away until the request's time is over: the client
library waits for each leader. So the topic is described first.
"""

from collections.abc import Collection
from typing import Any

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined] # a public name

from dedupe_crds.formatting import listed
from dedupe_kafka.client import calling
from dedupe_kafka.errors import (
    BrokerUnavailable,
    NoLeader,
    NotAuthorized,
    StreamError,
    TopicMissing,
)
from dedupe_kafka.offsets import Place, TopicOffsets
from dedupe_kafka.requests import EARLIEST, LATEST, AdminRequests, code_of


def readable_offsets(
    requests: AdminRequests,
    name: str,
    partitions: Collection[int] | None = None,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    *,
    reads: bool = True,
) -> TopicOffsets:
    """Return a topic's UUID and the offsets of these partitions, or of all.

    One that Kafka does not let this client read is in `failed`, with the reason, and is not waited for. A client that
    `reads` nothing needs no ACL READ. Raises BrokerUnavailable if no broker answers, and of all partitions also
    NotAuthorized and TopicMissing.
    """
    try:
        found = requests.describe(name, include_authorized_operations=reads)
    except (NotAuthorized, TopicMissing) as error:
        if partitions is None:
            raise
        return TopicOffsets(
            topic=name, id="", lows={}, ends={}, failed=dict.fromkeys(partitions, error)
        )
    allowed = found.authorized_operations if reads else None
    failed: dict[int, StreamError] = {}
    wanted = [at for at in found.partitions if partitions is None or at.id in partitions]
    for at in wanted:
        if allowed and AclOperation.READ not in allowed:
            failed[at.id] = NotAuthorized(
                f"{name}/{at.id}: Kafka does not allow this client to read the topic; check its ACLs"
            )
        elif not _has_leader(at):
            failed[at.id] = _no_leader(name, at.id)
    asked = [at.id for at in wanted if at.id not in failed]
    lows, ends = (
        requests.offsets(name, asked, spec, isolation, failed) if asked else {}
        for spec in (EARLIEST, LATEST)
    )
    return TopicOffsets(topic=name, id=str(found.topic_id), lows=lows, ends=ends, failed=failed)


def all_offsets(
    requests: AdminRequests,
    name: str,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> TopicOffsets:
    """Return a topic's UUID and the offsets of all partitions. Raises TopicMissing.

    A partition without a leader is waited for; NoLeader names those that still have none.
    """
    found = requests.describe(name)
    partitions = range(len(found.partitions))
    try:
        lows, ends = (
            requests.offsets(name, partitions, spec, isolation) for spec in (EARLIEST, LATEST)
        )
    except BrokerUnavailable as error:
        found = requests.describe(name)
        without = [str(_no_leader(name, at.id)) for at in found.partitions if not _has_leader(at)]
        if without:
            raise NoLeader(listed(without)) from error
        raise
    return TopicOffsets(topic=name, id=str(found.topic_id), lows=lows, ends=ends)


def readable_ends(requests: AdminRequests, places: Collection[Place]) -> dict[Place, int | None]:
    """Return the last stable offset of partitions of any topics, by two requests.

    None for one that has no leader or is refused; one of a topic that does not exist is left out. Raises
    BrokerUnavailable if no broker answers.
    """
    topics = requests.describe_all({topic for topic, _ in places})
    led = {
        (name, at.id)
        for name, found in topics.items()
        for at in found.partitions
        if _has_leader(at)
    }
    ends: dict[Place, int | None] = {each: None for each in places if each[0] in topics}
    wanted = {TopicPartition(*each): LATEST for each in places if each in led}
    if not wanted:
        return ends
    with calling("listing offsets"):
        futures = requests.admin.list_offsets(
            wanted,
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=requests.timeout_seconds,
        )
    for at, future in futures.items():
        try:
            answer = requests.answer(future, f"listing offsets of {at.topic}/{at.partition}")
        except StreamError as error:
            if code_of(error) <= 0:
                raise
        else:
            ends[at.topic, at.partition] = int(answer.offset)
    return ends


def _no_leader(topic: str, partition: int) -> NoLeader:
    return NoLeader(f"{topic}/{partition} has no leader: start the brokers that have its replicas")


def _has_leader(partition: Any) -> bool:  # noqa: ANN401 (the library's description of it)
    return partition.leader is not None and partition.leader.id >= 0
