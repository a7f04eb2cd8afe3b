"""docs/operations.md explains every reason and event of operator and workers, and its links lead to a heading."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dedupe_crds.status.stream import RestoreSource
from dedupe_ids.missing import MissingId
from dedupe_kafka.errors import HoldingRecord, StreamError
from dedupe_operator import process  # noqa: F401 # so that all of the operator's errors are known
from dedupe_worker import cli  # noqa: F401 # so that all of the worker's errors are known
from dedupe_worker.status import Degraded

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/operations.md").read_text()
OPERATOR = sorted((ROOT / "operator/dedupe_operator").rglob("*.py"))
ALERTS = (ROOT / "charts/dedupestream/templates/prometheusrule.yaml").read_text()

WORD = re.compile(r"[A-Z][a-z0-9]+([A-Z][a-z0-9]+)+")
OTHERS = {
    # Kinds of objects
    "ConfigMap", "PersistentVolume", "PersistentVolumeClaim", "PodDisruptionBudget", "ServiceAccount",
    "StatefulSet", "StorageClass", "VolumeAttachment", "VolumeSnapshot",
    # Values and fields of Kubernetes' objects
    "AlwaysAllow", "BearerToken", "ContainerCreating", "FallbackToLogsOnError", "IfNotPresent",
    "OnRootMismatch", "PodScheduled", "ReadWriteOnce", "RuntimeDefault", "ScheduleAnyway",
    # Reasons of Kubernetes' own parts, from which the operator derives its reasons
    "ControllerResizeError", "CrashLoopBackOff", "FailedCreate", "FileSystemResizePending",
    "NodeResizeError", "ProvisioningFailed", "SuccessfulCreate",
    # Value of an annotation that Argo CD reads
    "IgnoreExtraneous",
    # Fields of Amazon's API
    "AvailabilityZone", "ClientToken", "CreateTime", "FullSnapshotSizeInBytes", "KmsKeyId", "PageSize",
    "ResourceType", "ResponseMetadata", "RestoreExpiryTime", "SnapshotId", "StartTime", "StateMessage",
    "StorageTier", "TagSpecifications", "VolumeId", "VolumeSize", "VolumeType",
    # Prefix of event names; the whole names have their own test
    "StoreFrom",
}  # fmt: skip
"""Words in the operator's code that no user reads as a reason or an event."""


def words(path: Path) -> Iterator[str]:
    """Yield the texts of a module that look like a reason, except members of sets.

    Those are words of other programs, which the module distinguishes.
    """
    tree = ast.parse(path.read_text())
    in_sets = {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.Set) for part in node.elts
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in in_sets:
            continue
        text = str(node.value)
        if WORD.fullmatch(text) and not text.endswith("TypeDef"):
            yield text


def reasons(path: Path) -> Iterator[str]:
    """Yield the single capitalised words that are given as a reason."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.keyword) and node.arg == "reason":
            given = node.value
        elif isinstance(node, ast.Call) and _name(node) in {
            "ProviderError",
            "ProviderFailed",
            "with_advice",
        }:
            given = node.args[0]
        elif isinstance(node, ast.Call) and _name(node) == "_Verdict":
            given = node.args[2]
        else:
            continue
        if isinstance(given, ast.Constant) and re.fullmatch(r"[A-Z]\w+", str(given.value)):
            yield str(given.value)


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def errors_below(base: type[Exception]) -> Iterator[type[Exception]]:
    for each in base.__subclasses__():
        yield each
        yield from errors_below(each)


def is_explained(word: str) -> bool:
    return f"`{word}`" in PAGE


def test_every_word_of_the_operator_is_explained() -> None:
    said = {word for path in OPERATOR for word in (*words(path), *reasons(path))}
    assert len(said - OTHERS) > 60
    assert sorted(word for word in said - OTHERS if not is_explained(word)) == []


def test_no_word_is_excused_that_the_operator_does_not_have() -> None:
    said = {word for path in OPERATOR for word in words(path)}
    assert sorted(OTHERS - said) == []


def test_every_error_of_workers_and_kafka_is_explained() -> None:
    names = {
        each.__name__
        for each in errors_below(StreamError)
        if each.__module__.startswith(("dedupe_worker.", "dedupe_kafka."))
        and not each.__name__.startswith("_")  # never leaves its module
        and each is not HoldingRecord  # the kind of others
    }
    assert {"DiskFull", "BrokerUnavailable", "RestoreFailed"} <= names
    assert sorted(name for name in names if not is_explained(name)) == []


@pytest.mark.parametrize("reason", Degraded)
def test_every_degraded_reason_is_explained(reason: Degraded) -> None:
    section = PAGE.split("## Degraded reasons of a worker")[1].split("\n## ")[0]
    assert f"\n| `{reason}` | " in section


@pytest.mark.parametrize("why", MissingId)
def test_every_kind_of_missing_id_is_explained(why: MissingId) -> None:
    section = PAGE.split("## Records without a usable id")[1].split("\n## ")[0]
    assert f"\n| `{why}` | " in section


@pytest.mark.parametrize("source", RestoreSource)
def test_every_rung_of_the_ladder_has_its_event(source: RestoreSource) -> None:
    assert is_explained(f"StoreFrom{source}")


def test_no_text_names_an_alert_that_does_not_exist() -> None:
    alerts = set(re.findall(r"- alert: (\w+)", ALERTS))
    assert len(alerts) > 15
    assert set(re.findall(r"`(Dedupe(?!Stream`|Snapshot`)\w+)`", PAGE)) <= alerts
