"""Whole looks at a stream whose Kafka changes, refuses or is away."""

from dedupe_kafka.errors import BrokerUnavailable
from dedupe_kafka.topic import TopicProblem
from dedupe_operator.controller.reconciler import (
    PENDING_SECONDS,
    PROBLEM_RETRY_SECONDS,
    RESYNC_SECONDS,
)
from dedupe_operator.controller.status_writer import read_status
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.decide.allow_list import AllowList
from tests.unit.operator.objects import NAMESPACE, STREAM, stream
from tests.unit.operator.scene import KEY, Scene


def test_kafka_out_of_reach_makes_no_workers_and_is_told(scene: Scene) -> None:
    scene.kafka.fails = BrokerUnavailable("no answer from kafka:9092")
    assert scene.look() == PROBLEM_RETRY_SECONDS
    assert scene.cluster.condition("Ready")["reason"] == "BrokerUnavailable"
    assert "kafka:9092" in scene.cluster.condition("Ready")["message"]
    assert scene.cluster.writes == [("apply", "DedupeStream", STREAM)]
    scene.kafka.fails = None
    assert scene.rest() == RESYNC_SECONDS


def test_kafka_out_of_reach_leaves_running_workers_and_mends_their_children(scene: Scene) -> None:
    scene.rest()
    scene.kafka.fails = BrokerUnavailable("no answer from kafka:9092")
    scene.cluster.remove("Service", "orders-1")
    scene.look()
    assert scene.cluster.one("Service", "orders-1")
    assert scene.cluster.condition("Ready")["status"] == "True"
    assert scene.cluster.condition("Degraded")["reason"] == "BrokerUnavailable"


def test_an_output_topic_that_would_lose_messages_starts_no_worker(scene: Scene) -> None:
    compacted = TopicProblem(reason="OutputTopicCompacted", message="set it", fatal=True)
    scene.kafka.problems = (compacted,)
    scene.look()
    assert scene.cluster.names("StatefulSet") == []
    assert scene.cluster.condition("Ready")["reason"] == "OutputTopicCompacted"


def test_an_output_topic_that_is_merely_unwise_is_told_beside_the_workers(scene: Scene) -> None:
    short = TopicProblem(reason="OutputRetentionTooShort", message="raise it", fatal=False)
    scene.kafka.problems = (short,)
    assert scene.rest() == PROBLEM_RETRY_SECONDS
    assert scene.cluster.condition("Ready")["status"] == "True"
    assert scene.cluster.condition("Degraded")["reason"] == "OutputRetentionTooShort"


def test_partitions_added_to_the_input_wait_until_they_are_accepted(scene: Scene) -> None:
    scene.rest()
    assert scene.cluster.condition("InputPartitionsAdded")["status"] == "False"
    scene.kafka.partitions = 4
    scene.rest()
    assert scene.cluster.names("StatefulSet") == ["orders-0", "orders-1"]
    condition = scene.cluster.condition("InputPartitionsAdded")
    assert (condition["status"], condition["reason"]) == ("True", "InputPartitionsAdded")
    assert "Partitions 2-3 were added" in condition["message"]
    assert "addedPartitions" in condition["message"]
    assert scene.cluster.condition("Ready")["status"] == "True", "the others go on"
    assert scene.cluster.condition("Progressing")["reason"] == "UpToDate"
    assert scene.cluster.status["addedPartitions"] == [
        {"partition": 2, "lagMessages": 1200},
        {"partition": 3, "lagMessages": 1200},
    ]
    assert "InputPartitionsAdded" in scene.cluster.told

    config = scene.cluster.one("ConfigMap", "orders-worker")["data"]
    before = scene.stateful_sets()
    scene.cluster.add_stream({"spec.input.addedPartitions": "Accept"})
    scene.rest()
    assert scene.cluster.names("StatefulSet") == [f"orders-{number}" for number in range(4)]
    assert scene.stateful_sets()[:2] == before, "no worker is restarted"
    assert scene.cluster.one("ConfigMap", "orders-worker")["data"] == config
    assert scene.cluster.condition("InputPartitionsAdded")["status"] == "False"
    assert "addedPartitions" not in scene.cluster.status
    scene.kafka.partitions = 5
    scene.rest()
    assert "orders-4" in scene.cluster.names("StatefulSet")


def test_what_was_added_stays_named_while_kafka_does_not_answer(scene: Scene) -> None:
    scene.rest()
    scene.kafka.partitions = 3
    scene.rest()
    scene.kafka.fails = BrokerUnavailable("no broker answers")
    scene.rest()
    assert scene.cluster.condition("InputPartitionsAdded")["status"] == "True"
    assert scene.cluster.status["addedPartitions"] == [{"partition": 2, "lagMessages": 1200}]


def test_of_many_added_partitions_the_first_are_listed_and_all_are_named(scene: Scene) -> None:
    scene.rest()
    scene.kafka.partitions = 500
    scene.rest()
    listed = [each["partition"] for each in scene.cluster.status["addedPartitions"]]
    assert listed == list(range(2, 102))
    assert "Partitions 2-499 were" in scene.cluster.condition("InputPartitionsAdded")["message"]
    scene.kafka.fails = BrokerUnavailable("no broker answers")
    scene.rest()
    assert "Partitions 2-499 were" in scene.cluster.condition("InputPartitionsAdded")["message"]
    assert len(scene.cluster.status["addedPartitions"]) == 100


def test_a_stream_that_lost_its_status_gives_what_was_added_no_workers(scene: Scene) -> None:
    """Its volumes say which partitions it had."""
    scene.rest()
    scene.kafka.partitions = 3
    del scene.cluster.one("DedupeStream", STREAM)["status"]
    scene.rest()
    assert scene.cluster.names("StatefulSet") == ["orders-0", "orders-1"]


def test_partitions_that_were_there_stay_whatever_the_topic_says(scene: Scene) -> None:
    scene.rest()
    scene.kafka.partitions = 1
    scene.look()
    assert scene.cluster.writes == []
    assert scene.cluster.names("StatefulSet") == ["orders-0", "orders-1"]


def test_a_missing_kafka_secret_starts_no_worker_and_says_which(scene: Scene) -> None:
    scene.cluster.add_stream({"spec.kafka.configSecretRef": {"name": "orders-kafka"}})
    assert scene.look() == PROBLEM_RETRY_SECONDS
    assert scene.cluster.condition("Ready")["reason"] == "SecretMissing"
    assert scene.cluster.names("StatefulSet") == []
    assert scene.kafka.asked == []


def test_a_kafka_secret_that_is_lost_changes_no_running_worker(scene: Scene) -> None:
    secured = {"spec.kafka.configSecretRef": {"name": "orders-kafka"}}
    scene.cluster.add_stream(secured)
    metadata = {"name": "orders-kafka", "namespace": NAMESPACE}
    data = {"client.properties": "c2FzbC51c2VybmFtZT1tZQ=="}
    scene.cluster.add({"kind": "Secret", "metadata": metadata, "data": data})
    scene.rest()
    scene.cluster.remove("Secret", "orders-kafka")
    scene.look()
    assert [write for write in scene.cluster.writes if write[1] == "StatefulSet"] == []
    assert scene.cluster.condition("Degraded")["reason"] == "SecretMissing"


def test_workers_that_run_are_looked_after_though_their_record_is_lost(scene: Scene) -> None:
    scene.rest()
    scene.cluster.one("DedupeStream", STREAM).pop("status")
    scene.kafka.fails = BrokerUnavailable("no answer")
    scene.restart_operator()
    scene.look()
    assert scene.cluster.status["partitionsReady"] == "2/2"
    assert {one["restore"]["source"] for one in scene.cluster.status["partitions"]} == {"Volume"}


def test_new_kafka_credentials_roll_the_workers(scene: Scene) -> None:
    scene.cluster.add_stream({"spec.kafka.configSecretRef": {"name": "orders-kafka"}})
    metadata = {"name": "orders-kafka", "namespace": NAMESPACE}
    data = {"client.properties": "c2FzbC51c2VybmFtZT1tZQ=="}
    secret = scene.cluster.add({"kind": "Secret", "metadata": metadata, "data": data})
    scene.rest()
    assert scene.kafka.asked[-1][1] == {"sasl.username": "me"}
    secret["data"]["ca.crt"] = "Y2E="
    scene.look()
    assert ("apply", "StatefulSet", "orders-0") in scene.cluster.writes
    assert ("apply", "StatefulSet", "orders-1") not in scene.cluster.writes


def test_an_output_topic_of_an_older_stream_starts_no_worker_until_that_is_gone(
    scene: Scene,
) -> None:
    older = stream({"metadata.name": "older"})
    scene.conflicts.find(older, held={"orders-clean": "id-of-orders-clean"}, routed={})
    assert scene.look() == PROBLEM_RETRY_SECONDS
    assert scene.cluster.names("StatefulSet") == []
    assert scene.cluster.condition("Ready")["reason"] == "OutputTopicShared"
    scene.conflicts.forget(Key(NAMESPACE, "older"))
    assert scene.rest() == RESYNC_SECONDS


def test_a_topic_that_a_stream_of_another_namespace_claims_is_said_and_stops_nothing(
    scene: Scene,
) -> None:
    changes = {"metadata.namespace": "rivals", "spec.kafka.bootstrapServers": "fake:9092"}
    held = {"orders-clean": "id-of-orders-clean"}
    assert scene.conflicts.find(stream(changes), held=held, routed={}) is None
    scene.rest()
    assert scene.cluster.names("StatefulSet") == ["orders-0", "orders-1"]
    degraded = scene.cluster.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "OutputTopicClaimed")
    assert scene.cluster.condition("Ready")["status"] == "True"
    scene.conflicts.forget(Key("rivals", "orders"))
    scene.rest()
    assert scene.cluster.condition("Degraded")["status"] == "False"


def test_a_topic_stays_its_streams_after_a_restart_of_the_operator(scene: Scene) -> None:
    scene.rest()
    assert scene.cluster.status["topicIds"] == ["id-of-orders-clean"]
    raw = scene.cluster.one("DedupeStream", STREAM)
    scene.restart_operator()
    scene.conflicts.load([(raw, read_status(raw))])
    other = stream({"metadata.name": "other"})
    assert scene.conflicts.find(other, held={"orders-clean": "id-of-orders-clean"}, routed={})
    assert scene.rest() == RESYNC_SECONDS


def test_a_stream_that_is_not_allowed_is_left_as_it_is(scene: Scene) -> None:
    scene.rest()
    before = scene.stateful_sets()
    asked = len(scene.kafka.asked)
    scene.restart_operator(allowed=AllowList(bootstrap_servers=("other.example",)))
    scene.cluster.add_stream({"spec.worker": {"image": "registry.example/worker:2"}})
    assert scene.rest() == RESYNC_SECONDS
    ready = scene.cluster.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "NotAllowed")
    assert "kafka:9092 is not allowed here" in ready["message"]
    assert scene.cluster.condition("Stalled")["status"] == "True"
    assert scene.stateful_sets() == before
    assert len(scene.kafka.asked) == asked, "Kafka is not asked"
    scene.restart_operator(allowed=AllowList(bootstrap_servers=("kafka",)))
    assert scene.rest() == RESYNC_SECONDS
    assert scene.cluster.condition("Ready")["status"] == "True"


def test_a_pass_without_the_answer_that_it_needs_changes_nothing(scene: Scene) -> None:
    """Its answer brings the next pass."""
    held = scene.lanes.held = []
    assert scene.look() == PENDING_SECONDS
    assert scene.cluster.writes == []
    due: list[Key] = []
    scene.asks.start(due.append)
    assert scene.reconciler.reconcile(KEY) == PENDING_SECONDS
    assert len(held) == 1, "it is asked once"
    held.pop()()
    assert due == [KEY]
    scene.look()
    assert scene.cluster.names("StatefulSet") == ["orders-0", "orders-1"]


def test_known_topics_are_used_while_kafka_is_asked_again(scene: Scene) -> None:
    scene.rest()
    held = scene.lanes.held = []
    for _ in range(3):
        assert scene.look() == RESYNC_SECONDS
    assert len(held) == 1
    assert scene.cluster.writes == []
