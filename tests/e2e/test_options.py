"""What a manifest may ask for beside the plain stream: routes, notes, filters, a table of ids, no transactions."""

from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from dedupe_crds.status.stream import RestoreSource
from dedupe_filters.reader import FilteredReader
from tests.cluster.environment import Environment
from tests.e2e.support.plugin import Plugin
from tests.e2e.support.restores import restore_of, restored
from tests.e2e.support.scene import Scene
from tests.e2e.support.snapshots import Snapshots
from tests.e2e.support.stream import ClusterStream
from tests.e2e.support.volumes import lose_volume
from tests.faults.seed import SEED
from tests.support.checker.checker import judge
from tests.support.checker.id_sources import key_id
from tests.support.checker.record import Message
from tests.support.checker.routed import added, everything, judge_routes, routed, routes_of
from tests.support.spark.session import spark
from tests.support.traffic.traffic import ID_HEADER, retries

__all__ = ["spark"]

PARTITIONS = 2
MESSAGES = 2_000


@pytest.fixture(scope="module")
def table(place: Scene) -> ClusterStream:
    stream = place.stream(
        "table",
        partitions=PARTITIONS,
        store={"type": "InverseBloom", "inverseBloom": {"slots": 1_000_000}},
        snapshots={"provider": "CSI"},
    )
    stream.apply()
    return stream


@pytest.fixture(scope="module")
def acknowledged(place: Scene) -> ClusterStream:
    stream = place.stream("acknowledged", partitions=PARTITIONS, delivery="AtLeastOnce")
    stream.apply()
    return stream


@pytest.fixture(scope="module")
def routing(place: Scene, table: ClusterStream, acknowledged: ClusterStream) -> ClusterStream:  # noqa: ARG001 # these start meanwhile
    """A stream with everything, which has passed MESSAGES."""
    marked = uuid4().hex[:6]
    stream = place.stream(
        "routing",
        partitions=PARTITIONS,
        duplicates={"policy": "Topic", "topic": f"again-{marked}"},
        conflicts={"policy": "Topic", "topic": f"other-{marked}"},
        late={"policy": "Topic", "topic": f"late-{marked}", "maxAge": "3650d"},
    )
    stream.apply(
        output={
            "topic": stream.output_topic,
            "filter": {"from": "Header", "name": ID_HEADER, "sizeBytes": 255},
        },
        worker={"tuning": {"maxBatchRecords": 100, "maxTransactionRecords": 100}},
    )
    stream.wait_until_ready()
    stream.send(retries(SEED, MESSAGES, partitions=PARTITIONS))
    stream.wait_until_passed()
    return stream


def judged_table(table: ClusterStream) -> None:
    """Nothing is lost, and of the duplicates only those pass whose ids were overwritten, which are few."""
    verdict = judge(table.raw(), table.clean(), key_id)
    assert verdict.defects.keys() <= {"duplicated", "reordered"}, str(verdict)
    assert len(verdict.duplicated) < MESSAGES / 100


def kill(stream: ClusterStream) -> None:
    """Have all its pods replaced, without a chance to end in order."""
    names = [pod["metadata"]["name"] for pod in stream.children("pods")]
    stream.kubectl("delete", "pod", *names, "--grace-period=0", "--force")


def test_each_duplicate_is_in_its_topic_with_what_it_repeats(routing: ClusterStream) -> None:
    raw, clean, routes = routing.raw(), routing.clean(), routes_of(routing)
    judge(raw, clean, key_id).assert_exactly_once(MESSAGES, or_more=True)
    judge_routes(raw, routes, key_id)
    assert everything(raw) == everything(clean, routes.duplicates, routes.conflicts or ())


@pytest.mark.matrix  # tests/component/worker/test_routed.py
def test_owners_are_right_after_a_rebuild_from_the_output_topic(
    release: Environment, place: Scene, routing: ClusterStream
) -> None:
    plugin = Plugin(release, place.namespace)
    for partition in range(PARTITIONS):
        plugin(
            *("restore", routing.name, "--partition", str(partition)),
            *("--from", "OutputTopic", "--yes", "--wait"),
        )
    routing.send(retries(SEED, MESSAGES, partitions=PARTITIONS))
    routing.judged()
    judge_routes(routing.raw(), routes_of(routing), key_id)


def test_a_reader_of_one_value_skips_chunks_and_misses_nothing(routing: ClusterStream) -> None:
    wanted = dict(routing.clean()[MESSAGES // 4].headers)[ID_HEADER]
    assert wanted is not None
    with FilteredReader(routing.bootstrap_servers, routing.output_topic, values=[wanted]) as reader:
        found = [(record.partition(), record.offset()) for record in reader]
        statistics = reader.statistics
    assert found == [
        (record.partition, record.offset)
        for record in routing.clean()
        if (ID_HEADER, wanted) in record.headers
    ]
    assert statistics.chunks_skipped > statistics.chunks / 2


@pytest.mark.matrix  # tests/component/spark/test_datasource.py
def test_spark_reads_what_a_read_of_everything_has_of_one_value(
    spark: SparkSession, routing: ClusterStream
) -> None:
    wanted = dict(routing.clean()[MESSAGES // 4].headers)[ID_HEADER]
    assert wanted is not None
    frame = spark.read.format("dedupestream").load(
        bootstrapServers=routing.bootstrap_servers,
        topic=routing.output_topic,
        header=ID_HEADER,
        filter=wanted.decode(),
    )
    assert sorted((row["partition"], row["offset"]) for row in frame.collect()) == [
        (record.partition, record.offset)
        for record in routing.clean()
        if (ID_HEADER, wanted) in record.headers
    ]


def test_a_record_too_old_to_be_judged_is_in_its_topic(routing: ClusterStream) -> None:
    of_2001 = Message(0, b"of 2001", b"value", timestamp_ms=1_000_000_000_000)
    before = len(routing.clean())
    routing.send([of_2001])
    routing.wait_until_passed()
    [late] = routed(routing, "late")
    assert (late.key, late.value) == (of_2001.key, of_2001.value)
    assert int(added(late)["dedupe-late"]) > 1_000_000_000_000
    assert len(routing.clean()) == before


def test_an_id_is_looked_up_and_forgotten_by_the_plugin(
    release: Environment, place: Scene, routing: ClusterStream
) -> None:
    routing.wait_until_ready()
    plugin = Plugin(release, place.namespace)
    first = routing.raw()[0]
    assert first.key is not None
    known = plugin("lookup", routing.name, first.key.decode())
    [_, row] = known.splitlines()
    assert row.split()[:4] == [first.key.decode(), "yes", "0", f"0:{first.offset}"]
    unknown = plugin.run("lookup", routing.name, "nobody")
    assert unknown.returncode == 1
    assert unknown.stdout.splitlines()[1].split()[:2] == ["nobody", "no"]

    said = plugin("forget", routing.name, first.key.decode(), "nobody")
    answer, note = said.splitlines()
    assert answer == f"{routing.name}: 1 of 2 ids forgotten; the others were not known"
    assert note.startswith("note: the output topic still has their records")
    before = len(routing.clean())
    routing.send([Message(0, first.key, b"once more", first.headers, first.timestamp_ms)])
    routing.wait_until_passed()
    assert len(routing.clean()) == before + 1


@pytest.mark.matrix  # tests/faults/test_inverse_bloom.py
def test_a_table_of_fixed_size_survives_its_pods(table: ClusterStream) -> None:
    """With many more slots than ids a collision is rare; what it lets through is a duplicate and never a loss."""
    table.wait_until_ready()
    traffic = list(retries(SEED, MESSAGES, partitions=PARTITIONS))
    for _ in range(2):
        table.send(traffic)
        table.wait_until_passed()
        kill(table)
        table.wait_until_ready()
    judged_table(table)


@pytest.mark.matrix  # tests/faults/test_inverse_bloom.py
def test_a_table_of_fixed_size_comes_back_from_a_snapshot(table: ClusterStream) -> None:
    table.wait_until_ready()
    first = f"{table.name}-first"
    Snapshots(table).make(first)
    with restored(table, 0):
        lose_volume(table, 0)
    table.send(retries(SEED, MESSAGES, partitions=PARTITIONS))
    table.wait_until_passed()
    restore = restore_of(table, 0)
    assert (restore.source, restore.name) == (RestoreSource.SNAPSHOT, first)
    judged_table(table)


@pytest.mark.matrix  # tests/faults/test_inverse_bloom.py
def test_a_table_of_another_size_takes_the_place_of_the_one_there_was(table: ClusterStream) -> None:
    table.patch(store={"inverseBloom": {"slots": 700_000}})
    table.wait_until_rolled_out()
    table.send(retries(SEED, MESSAGES, partitions=PARTITIONS))
    table.wait_until_passed()
    judged_table(table)


@pytest.mark.matrix  # tests/faults/test_at_least_once.py
def test_without_transactions_nothing_is_lost(acknowledged: ClusterStream) -> None:
    acknowledged.wait_until_ready()
    acknowledged.send(retries(SEED, MESSAGES, partitions=PARTITIONS))
    kill(acknowledged)
    acknowledged.wait_until_ready()
    acknowledged.wait_until_passed()
    verdict = judge(acknowledged.raw(), acknowledged.clean(), key_id)
    assert verdict.defects.keys() <= {"duplicated", "reordered"}, str(verdict)
