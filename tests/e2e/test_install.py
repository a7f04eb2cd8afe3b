"""A chart that is installed, and a stream that is applied: all that a user does."""

from collections.abc import Callable

from tests.e2e.support.stream import ClusterStream
from tests.faults.seed import SEED
from tests.support.traffic.traffic import retries

PARTITIONS = 3


def test_a_stream_that_is_applied_passes_each_message_once(
    streams: Callable[..., ClusterStream],
) -> None:
    stream = streams(partitions=PARTITIONS)
    stream.apply()
    stream.wait_until_ready()
    stream.send(retries(SEED, 3_000, partitions=PARTITIONS))

    verdict = stream.judged()

    stream.wait_until(lambda: stream.status().partitions_ready == "3/3", "all are ready")
    assert [one.partition for one in stream.status().partitions] == list(range(PARTITIONS))
    duplicates = sum(stream.worker_status(p).counts.duplicates for p in range(PARTITIONS))
    assert duplicates == 3_000 - verdict.expected
