"""Behind routers a duplicate names where its producer wrote the original."""

import shutil
from collections.abc import Callable

from dedupe_kafka.cluster import Cluster
from tests.support.checker import history
from tests.support.checker.record import Message, Record
from tests.support.patience import HANG_SECONDS
from tests.support.processes.loopback import HTTP
from tests.support.processes.processes import Workers
from tests.support.processes.routers import RoutedStream, Routers

CreateStream = Callable[..., RoutedStream]

TOKEN = "of-the-test"  # noqa: S105 (of a worker that ends with the test)


def added(record: Record) -> dict[str, str]:
    """The headers that the worker has added."""
    names = ("dedupe-original", "dedupe-position")
    return {name: (value or b"").decode() for name, value in record.headers if name in names}


def copies(stream: RoutedStream, name: str, partition: int, ids: list[bytes]) -> None:
    stream.send_to(name, [Message(partition, key, b"v", (("h", b"1"),)) for key in ids])


def test_a_duplicate_names_topic_partition_and_offset_of_both(
    routed_streams: CreateStream,
    routers: Routers,
    workers: Workers,
    topics: Callable[..., str],
) -> None:
    again = topics("again", 2, **{"retention.ms": -1})
    stream = routed_streams(
        inputs=(3, 1), partitions=2, duplicates={"policy": "Topic", "topic": again}
    )
    first, second = stream.inputs
    ids = [b"id-%d" % n for n in range(20)]
    routers.start(stream)
    copies(stream, first, 2, ids)
    stream.wait_until_routed()
    running = [workers.start(stream, number) for number in range(2)]
    stream.wait_until_read(running)
    # The stores are lost: what they knew of originals is in the owner log.
    for worker in running:
        worker.sigkill()
        shutil.rmtree(worker.state_dir)
    running = [workers.start(stream, number) for number in range(2)]
    for worker in running:
        worker.wait_until_ready()
    copies(stream, second, 0, ids)
    copies(stream, first, 0, ids)
    stream.wait_until_routed()
    stream.wait_until_read(running)
    history.wait_until_settled(stream.bootstrap_servers, again)
    routed = history.read_topic(stream.bootstrap_servers, again)
    assert len(routed) == 40
    for record in routed:
        number = ids.index(record.key or b"")
        told = added(record)
        assert told["dedupe-original"] == f"{first}:2:{number}"
        assert told["dedupe-position"] in {f"{second}:0:{number}", f"{first}:0:{number}"}
        assert record.headers[0] == ("h", b"1")
        assert all(name != "dedupe-origin" for name, _ in record.headers)
    assert len(stream.clean()) == 20
    assert Cluster(stream.bootstrap_servers).partition_count(stream.output_topic) == 2


def test_lookup_names_the_topic(
    routed_streams: CreateStream, routers: Routers, workers: Workers
) -> None:
    stream = routed_streams(inputs=(2,), partitions=1)
    token = workers.state_dir(stream).with_suffix(".token")
    token.write_text(TOKEN)
    routers.start(stream)
    copies(stream, stream.inputs[0], 1, [b"a", b"b"])
    stream.wait_until_routed()
    worker = workers.start(stream, arguments=["--admin-token-file", token])
    stream.wait_until_read([worker])
    answer = HTTP.post(
        f"http://{worker.endpoint()}/lookup",
        json={"ids": ["b"]},
        headers={"Authorization": f"Bearer {TOKEN}"},
        timeout=HANG_SECONDS,
    )
    (found,) = answer.raise_for_status().json()["ids"]
    assert found["owner"] == {"topic": stream.inputs[0], "partition": 1, "offset": 1}
