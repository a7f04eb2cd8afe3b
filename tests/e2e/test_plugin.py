"""`kubectl dedupe` as its users type it, and what they read."""

import json
import signal

import pytest

from dedupe_crds.status.stream import LastSnapshot, PartitionPhase
from tests.cluster.environment import Environment
from tests.e2e.support.copied import copied_stream
from tests.e2e.support.kubectl import Object
from tests.e2e.support.plugin import Plugin, kubeconfig_of
from tests.e2e.support.scene import Scene
from tests.e2e.support.stream import ClusterStream
from tests.e2e.support.volumes import claim_of, volume_of
from tests.faults.seed import SEED
from tests.support.patience import HANG_SECONDS
from tests.support.traffic.traffic import retries

PARTITIONS = 2
MESSAGES = 600
READER = "reader"
WIDE_COLUMNS = ["SHARE", "OUTPUT", "ROLLOUT", "SNAPSHOTS", "MESSAGE"]


@pytest.fixture(scope="module")
def troubled(place: Scene) -> ClusterStream:
    """A stream without its input topic."""
    stream = place.stream("troubled", raw=False, clean=False)
    stream.apply()
    return stream


@pytest.fixture(scope="module")
def stream(place: Scene, troubled: ClusterStream) -> ClusterStream:  # noqa: ARG001 # slow to be told
    """A stream that has passed MESSAGES."""
    made = copied_stream(place, "orders", partitions=PARTITIONS)
    made.apply()
    made.wait_until_ready()
    made.send(retries(SEED, MESSAGES, partitions=PARTITIONS))
    made.wait_until_passed()
    return made


def well(plugin: Plugin, stream: ClusterStream, *, notes: int = 0) -> list[str]:
    """The lines of its status once they say that it is well, with so many notes above the table.

    A probe that misses on a busy machine, or a worker that does not answer in time, shows for a moment.
    """

    def shown() -> list[str]:
        lines = plugin.run("status", stream.name).stdout.splitlines()
        heads = lines[0].endswith(", Running, 2/2 partitions ready") if lines else False
        told = heads and lines[1 + notes].startswith("PARTITION")
        return lines if told and (notes or "%" in lines[-1]) else []

    return stream.wait_until(shown, "its status says that it is well")


@pytest.fixture
def plugin(release: Environment, place: Scene) -> Plugin:
    return Plugin(release, place.namespace)


def test_status_shows_where_each_partition_runs_and_what_it_has_done(
    plugin: Plugin, stream: ClusterStream
) -> None:
    head, columns, *rows, total = well(plugin, stream)
    title = f"{stream.namespace}/{stream.name}: {stream.input_topic} → {stream.output_topic}"
    assert head == f"{title}, Running, 2/2 partitions ready"
    assert columns.split("  ")[0] == "PARTITION"
    names = ["PHASE", "POD", "NODE", "VOLUME", "RESTORED FROM", "RATE/S", "DUPLICATES", "LAG"]
    assert [name for name in (*names, "WINDOW", "LAST SNAPSHOT") if name not in columns] == []
    for partition, (row, pod) in enumerate(zip(rows, stream.children("pods"), strict=True)):
        [number, phase, name, node, volume, *_] = row.split()
        assert (number, phase, name) == (str(partition), "Running", stream.pod_name(partition))
        assert node == pod["spec"]["nodeName"]
        assert volume == f"{stream.name}-{partition}-1"
    duplicates = MESSAGES - len({message.key for message in retries(SEED, MESSAGES)})
    assert f" {duplicates} ({100 * duplicates / MESSAGES:.1f} %) " in total


def test_status_without_a_name_shows_all_streams_and_what_is_wrong(
    plugin: Plugin, stream: ClusterStream, troubled: ClusterStream
) -> None:
    troubled.wait_for_condition("Degraded", reason="TopicMissing")

    def shown() -> dict[str, str] | None:
        lines = {line.split()[0]: line for line in plugin("status").splitlines()}
        is_well = lines[stream.name].split()[1:4] == ["True", "Running", "2/2"]
        return lines if is_well else None

    lines = stream.wait_until(shown, "the table says that it is well")
    assert lines["NAME"].split()[:4] == ["NAME", "READY", "STATE", "PARTITIONS"]
    assert lines[troubled.name].split()[1] == "False"
    assert f"Input topic {troubled.input_topic} does not exist" in lines[troubled.name]


def test_top_shows_what_the_workers_have_done_and_hold(
    plugin: Plugin, stream: ClusterStream
) -> None:
    def shown() -> dict[str, Object] | None:
        items = json.loads(plugin("top", "--output", "json"))["items"]
        by_name = {item["stream"]: item for item in items}
        return by_name if by_name[stream.name]["answering"] == PARTITIONS else None

    load = stream.wait_until(shown, "all workers answer")[stream.name]
    assert (load["workers"], load["records"]) == (PARTITIONS, MESSAGES)
    assert load["storeBytes"] > 0
    assert plugin("top", stream.name).split()[0] == "PARTITION"


def test_kubectl_get_names_what_is_wrong(stream: ClusterStream, troubled: ClusterStream) -> None:
    troubled.wait_for_condition("Degraded", reason="TopicMissing")

    def shown() -> dict[str, str] | None:
        table = stream.kubectl("get", "dedupestreams", "--output", "wide")
        lines = {line.split()[0]: line for line in table.splitlines()}
        return (
            lines
            if lines[stream.name].split()[1:3] == ["True", f"{PARTITIONS}/{PARTITIONS}"]
            else None
        )

    lines = stream.wait_until(shown, "the table says that it is well")
    columns = ["READY", "REASON", "PARTITIONS", "WINDOW", "DUPLICATES", "LAG", "AGE"]
    assert lines["NAME"].split() == ["NAME", *columns, *WIDE_COLUMNS]
    assert lines[troubled.name].split()[1:3] == ["False", "TopicMissing"]
    assert f"Input topic {troubled.input_topic} does not exist" in lines[troubled.name]
    plain = troubled.kubectl("get", "dds", troubled.name)
    assert plain.splitlines()[0].split() == ["NAME", *columns]
    explained = stream.kubectl("explain", "dedupestream.status.reason")
    assert "absent if all is well." in " ".join(explained.split())


def test_status_is_for_programs_too(plugin: Plugin, stream: ClusterStream) -> None:
    def shown() -> Object | None:
        told: Object = json.loads(plugin("status", stream.name, "--output", "json"))
        live = all(one["live"] for one in told["partitions"])
        return told if live and told["ready"] == "True" else None

    told = stream.wait_until(shown, "it is ready, and all workers answer")
    assert (told["name"], told["partitionsReady"]) == (stream.name, "2/2")
    assert [one["phase"] for one in told["partitions"]] == ["Running"] * PARTITIONS
    assert sum(one["consumed"] for one in told["partitions"]) == MESSAGES


def test_a_watch_goes_on_until_it_is_interrupted(plugin: Plugin, stream: ClusterStream) -> None:
    watching = plugin.start("status", stream.name, "--watch")
    assert watching.stdout is not None
    heads = 0
    for line in watching.stdout:
        heads += line.startswith(stream.namespace)
        if heads == 2:
            break
    watching.send_signal(signal.SIGINT)
    watching.communicate(timeout=HANG_SECONDS)  # it may be amid asking
    assert heads == 2
    assert watching.returncode == 0


def test_a_suspended_stream_has_no_workers_and_resumes_on_its_volumes(
    plugin: Plugin, stream: ClusterStream
) -> None:
    title = f"{stream.namespace}/{stream.name}"
    claims = {one["metadata"]["uid"] for one in stream.children("persistentvolumeclaims")}

    said = plugin("suspend", stream.name, "--wait").splitlines()

    assert said[0] == f"{title} suspended"
    assert said[-1] == f"{title}: all workers are stopped"
    assert stream.children("pods") == []
    assert {one.phase for one in stream.status().partitions} == {PartitionPhase.SUSPENDED}
    assert ", Suspended, 0/2 partitions ready" in plugin("status", stream.name)
    assert "nothing is wrong; it is suspended" in plugin("describe-problem", stream.name)

    said = plugin("resume", stream.name, "--wait").splitlines()

    assert said[0] == f"{title} resumed"
    assert said[-1] == f"{title}: all partitions are ready"
    wait_until_all_are_ready(stream)
    assert {one["metadata"]["uid"] for one in stream.children("persistentvolumeclaims")} == claims
    assert plugin("resume", stream.name) == f"{title} is resumed already\n"


def test_a_restart_replaces_every_worker(plugin: Plugin, stream: ClusterStream) -> None:
    before = {pod["metadata"]["uid"] for pod in stream.children("pods")}
    said = plugin("restart", stream.name, "--wait").splitlines()
    after = {pod["metadata"]["uid"] for pod in stream.children("pods")}
    assert said[-1].endswith("all workers were replaced, and all partitions are ready")
    assert len(after) == PARTITIONS
    assert before & after == set()
    wait_until_all_are_ready(stream)


def test_a_problem_is_described_with_its_cause_and_what_to_do(
    plugin: Plugin, troubled: ClusterStream
) -> None:
    troubled.wait_for_condition("Degraded", reason="TopicMissing")
    done = plugin.run("describe-problem", troubled.name)
    assert done.returncode == 1
    head, _, what, why, do, *_ = done.stdout.splitlines()
    assert head == f"{troubled.namespace}/{troubled.name}: 1 problem"
    assert what == "1. The stream is degraded"
    assert why.startswith(f"   why: TopicMissing: Input topic {troubled.input_topic} does not ")
    assert do == "   do:  create the input topic, or name another in a new stream"


def test_a_stream_without_problems_is_said_to_have_none(
    plugin: Plugin, stream: ClusterStream
) -> None:
    said = f"{stream.namespace}/{stream.name}: nothing is wrong\n"
    stream.wait_until(
        lambda: plugin.run("describe-problem", stream.name).stdout == said, "nothing is wrong"
    )


@pytest.fixture(scope="module")
def copied(release: Environment, place: Scene, stream: ClusterStream) -> str:
    """The name of a snapshot of the stream, made by hand."""
    said = Plugin(release, place.namespace)("snapshot", stream.name, "--wait").splitlines()
    name = said[0].split()[1].removeprefix(f"{stream.namespace}/")
    assert name.startswith(f"{stream.name}-")
    complete = (
        f"snapshot {stream.namespace}/{name} is complete: {PARTITIONS}/{PARTITIONS} partitions, "
    )
    assert said[-1].startswith(complete), said
    return name


def test_snapshots_are_listed_with_what_they_hold(
    plugin: Plugin, stream: ClusterStream, copied: str
) -> None:
    head, *rows = plugin("snapshots", stream.name).splitlines()
    (row,) = (row for row in rows if row.split()[0] == copied)
    assert head.split()[:5] == ["NAME", "STREAM", "PHASE", "PROVIDER", "PARTITIONS"]
    assert row.split()[1:5] == [stream.name, "Completed", "CSI", f"{PARTITIONS}/{PARTITIONS}"]

    items = json.loads(plugin("snapshots", "--output", "json"))["items"]
    (found,) = (one for one in items if one["name"] == copied)
    assert [one["partition"] for one in found["partitions"]] == list(range(PARTITIONS))
    assert found["keys"] == len({message.key for message in retries(SEED, MESSAGES)})


def test_status_tells_the_age_of_each_partitions_snapshot(
    plugin: Plugin, stream: ClusterStream, copied: str
) -> None:
    def of_copied() -> list[LastSnapshot]:
        known = [one.last_snapshot for one in stream.status().partitions]
        named = [one for one in known if one and one.name == copied]
        return named if len(named) == PARTITIONS else []

    known = stream.wait_until(of_copied, "its status names the snapshot")
    told = json.loads(plugin("status", stream.name, "--output", "json"))["partitions"]
    assert [one["lastSnapshot"] for one in told] == [one.time.isoformat() for one in known]


@pytest.mark.matrix  # the one of test_restore.py
def test_a_partition_is_restored_on_a_new_volume_and_the_old_one_is_kept(
    plugin: Plugin, stream: ClusterStream, copied: str
) -> None:
    before = {one["metadata"]["name"] for one in stream.children("persistentvolumeclaims")}
    wish = ("restore", stream.name, "--partition", "0", "--from")

    refused = plugin.run(*wish, copied)
    assert refused.returncode == 2
    assert "use --yes" in refused.stderr
    absent = plugin.run(*wish, "nobodys", "--yes")
    assert (absent.returncode, absent.stderr.count("\n")) == (3, 1)

    said = plugin(*wish, copied, "--yes", "--wait").splitlines()

    (restored, _) = stream.status().partitions
    assert said[-1].startswith(
        f"partition 0 is ready on {restored.persistent_volume_claim}, restored from Snapshot {copied};"
    )
    assert restored.persistent_volume_claim not in before
    after = {one["metadata"]["name"] for one in stream.children("persistentvolumeclaims")}
    assert after == before | {restored.persistent_volume_claim}
    # Found by its number: what else is to be said of a stream stands above the table.
    (row,) = (
        line for line in plugin("status", stream.name).splitlines() if line.split()[:1] == ["0"]
    )
    assert f"Snapshot {copied}" in row


@pytest.mark.matrix  # the one partition of test_restore.py
def test_all_partitions_of_a_lost_zone_are_restored_by_one_command(
    plugin: Plugin, stream: ClusterStream, copied: str
) -> None:
    before = [claim_of(stream, number) for number in range(PARTITIONS)]
    for claim in before:
        strand(stream, volume_of(stream, claim))
    pods = [stream.pod_name(number) for number in range(PARTITIONS)]
    stream.kubectl("delete", "pod", *pods)
    stream.wait_until(
        lambda: all(is_unscheduled(pod) for pod in stream.children("pods") or [{}]),
        "no node can reach the volumes",
    )

    said = plugin("restore", stream.name, "--all-unschedulable", "--yes", "--wait").splitlines()

    assert "restore of partitions 0-1 from the best available source requested" in said[0]
    after = [claim_of(stream, number) for number in range(PARTITIONS)]
    for number, line in enumerate(said[-PARTITIONS:]):
        ready = f"partition {number} is ready on {after[number]}, restored from Snapshot {copied};"
        assert line.startswith(ready), said
    assert set(after).isdisjoint(before)
    wait_until_all_are_ready(stream)
    again = plugin("restore", stream.name, "--all-unschedulable", "--yes")
    assert "no partition has a volume out of reach" in again


def strand(stream: ClusterStream, volume: str) -> None:
    """Let a volume be in a zone that has no nodes any more."""
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["lost"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}
    patch = json.dumps({"spec": {"nodeAffinity": {"required": required}}})
    stream.kubectl("patch", "persistentvolume", volume, "--type", "merge", "--patch", patch)


def is_unscheduled(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    told = [one["status"] for one in conditions if one["type"] == "PodScheduled"]
    return told == ["False"]


def test_a_full_reconcile_shows_what_it_found(plugin: Plugin, stream: ClusterStream) -> None:
    said = plugin("reconcile", stream.name, "--full", "--wait").splitlines()
    *_, head, first, second, total = said
    assert head.split()[:4] == ["PARTITION", "RECORDS", "ADDED", "REMOVED"]
    assert [row.split()[0] for row in (first, second, total)] == ["0", "1", "total"]
    passed = len({message.key for message in retries(SEED, MESSAGES)})
    assert total.split()[1:] == [str(passed), "0", "0", "0", "0"]
    wait_until_all_are_ready(stream)


def wait_until_all_are_ready(stream: ClusterStream) -> None:
    stream.wait_until(lambda: stream.status().partitions_ready == "2/2", "all are ready")


@pytest.fixture
def reader(release: Environment, place: Scene) -> Plugin:
    """The plugin of somebody who may get streams by name, and nothing else."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": READER}
    subject = {"kind": "ServiceAccount", "name": READER, "namespace": place.namespace}
    rule = {"apiGroups": ["dedupestream.io"], "resources": ["dedupestreams"], "verbs": ["get"]}
    api, metadata = "rbac.authorization.k8s.io/v1", {"name": READER}
    place.kubectl.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": api, "kind": "Role", "metadata": metadata, "rules": [rule]},
        {
            "apiVersion": api,
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": role,
            "subjects": [subject],
        },
    )
    kubeconfig = kubeconfig_of(place.kubectl, READER, place.directory / "reader.kubeconfig")
    return Plugin(release, place.namespace, kubeconfig)


def test_who_may_only_get_a_stream_has_a_table_of_it(reader: Plugin, stream: ClusterStream) -> None:
    _, note, _, *rows = well(reader, stream, notes=1)
    assert note.startswith("Without pods and live figures: you may not list pods")
    assert [row.split()[1] for row in rows[:PARTITIONS]] == ["Running"] * PARTITIONS

    for refused in (reader.run("status"), reader.run("suspend", stream.name)):
        assert refused.returncode == 3
        assert refused.stderr.startswith("Error: you may not ")
        assert "Traceback" not in refused.stderr
