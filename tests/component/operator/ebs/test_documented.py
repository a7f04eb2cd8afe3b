"""What docs/aws.md tells to be allowed and to be done is what is called and written."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dedupe_crds.status.snapshot import (
    DedupeSnapshot,
    PartitionSnapshot,
    SnapshotPhase,
    SnapshotStatus,
)
from tests.component.operator.ebs.scene import AwsScene, tags_of

DOCUMENT = Path(__file__).parents[4] / "docs" / "aws.md"


def blocks(language: str) -> list[str]:
    """What stands in fences of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)


def test_the_operators_policy_allows_what_it_calls_and_nothing_else(aws: AwsScene) -> None:
    job = aws.taken()
    aws.restored(job)
    for kind in ("PersistentVolume", "PersistentVolumeClaim"):
        for name in aws.cluster.names(kind):
            if name.startswith("orders-0-2"):
                aws.cluster.remove(kind, name)
    assert aws.provider.remove_left_behind(job.stream, []).removed
    aws.provider.remove(job)
    called = {f"ec2:{one.action}" for one in aws.proxy.seen}
    policy, _ = (json.loads(block) for block in blocks("json"))
    allowed = [one["Action"] for one in policy["Statement"]]
    flat = {name for one in allowed for name in ([one] if isinstance(one, str) else one)}
    assert flat == called | {"ec2:CreateTags"}  # which both kinds of creation imply


def test_every_condition_of_the_policy_is_met_by_what_is_sent(aws: AwsScene) -> None:
    aws.restored(aws.taken())
    sent = {one.action: set(one.form.values()) for one in aws.proxy.seen}
    policy, _ = (json.loads(block) for block in blocks("json"))
    prefix = "aws:RequestTag/"
    wanted = {
        (statement["Action"].removeprefix("ec2:"), key.removeprefix(prefix))
        for statement in policy["Statement"]
        for condition in statement.get("Condition", {}).values()
        for key in condition
        if key.startswith(prefix)
    }
    assert {action for action, _ in wanted} == {"CreateSnapshot", "CreateVolume"}
    assert all(tag in sent[action] for action, tag in wanted)


def test_the_policy_allows_snapshots_with_the_projects_tags_only(aws: AwsScene) -> None:
    aws.taken()
    (made,) = aws.snapshots()
    policy, _ = (json.loads(block) for block in blocks("json"))
    for action in ("ec2:DeleteSnapshot", "ec2:CreateVolume"):
        (statement,) = (
            each
            for each in policy["Statement"]
            if each["Action"] == action and each["Resource"].endswith(":snapshot/*")
        )
        for key, value in statement["Condition"]["StringLike"].items():
            assert (value, key.startswith("aws:ResourceTag/dedupestream.io/")) == ("*", True)
            assert tags_of(made)[key.removeprefix("aws:ResourceTag/")]


def test_the_policy_can_be_limited_to_streams_by_what_it_makes_deletes_and_restores(
    aws: AwsScene,
) -> None:
    policy, _ = (json.loads(block) for block in blocks("json"))
    limited = {
        (statement["Action"], statement["Resource"].rpartition(":")[2])
        for statement in policy["Statement"]
        if any(
            key.endswith("/dedupestream.io/stream")
            for key in statement.get("Condition", {}).get("StringLike", {})
        )
    }
    assert limited == {
        ("ec2:CreateSnapshot", "snapshot/*"),
        ("ec2:DeleteSnapshot", "snapshot/*"),
        ("ec2:CreateVolume", "snapshot/*"),
        ("ec2:CreateVolume", "volume/*"),
        ("ec2:DeleteVolume", "volume/*"),
    }
    job = aws.taken()
    aws.restored(job)
    assert {tags_of(each)["dedupestream.io/stream"] for each in aws.snapshots()} == {"shop/orders"}


@pytest.mark.skipif(
    shutil.which("jq") is None, reason="jq, which the instructions use, is not here"
)
def test_snapshots_are_found_again_by_their_tags_alone(aws: AwsScene, tmp_path: Path) -> None:
    jobs = [aws.taken(partition) for partition in range(2)]
    found = json.dumps({"Snapshots": aws.snapshots()}, default=lambda time: time.isoformat())
    (program,) = blocks("jq")
    script = tmp_path / "dedupesnapshots.jq"
    script.write_text(program)
    done = subprocess.run(
        ["jq", "-f", str(script)],  # noqa: S607 # wherever it is installed
        input=found,
        capture_output=True,
        text=True,
        check=True,
    )
    (raw,) = json.loads(done.stdout)["items"]
    status = SnapshotStatus.model_validate(raw.pop("status"))
    snapshot = DedupeSnapshot.model_validate(raw)
    assert (snapshot.metadata.namespace, snapshot.metadata.name) == ("shop", "orders-1")
    assert snapshot.spec.stream_ref.name == "orders"
    assert status.phase is SnapshotPhase.COMPLETED
    stamps = [_stamp(entry) for entry in sorted(status.partitions, key=lambda one: one.partition)]
    assert stamps == [_stamp(job.entry) for job in jobs]


def _stamp(entry: PartitionSnapshot) -> dict[str, Any]:
    return entry.model_dump(exclude={"started", "completed", "volume_size"})
