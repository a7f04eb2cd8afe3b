"""The health checks of docs/gitops.md, run as Argo CD runs them, on statuses that the operator writes."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from lupa import LuaRuntime

from dedupe_crds.openapi import CUSTOM_RESOURCES

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs/gitops.md").read_text()
PREFIX: Final = "resource.customizations.health.dedupestream.io_"

Conditions = dict[str, tuple[str, str]]
"""Status and reason by type."""
Check = Callable[[dict[str, Any]], tuple[str, str]]


def scripts() -> dict[str, str]:
    """The scripts by kind."""
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    data: dict[str, str] = yaml.safe_load(block)["data"]
    return {name.removeprefix(PREFIX): script for name, script in data.items()}


def check_of(kind: str) -> Check:
    lua = LuaRuntime()
    run = lua.eval(f"function(obj) {scripts()[kind]} end")

    def check(found: dict[str, Any]) -> tuple[str, str]:
        answer = run(lua.table_from(found, recursive=True))
        return answer.status, answer.message

    return check


def test_there_is_a_check_of_each_kind_that_users_write() -> None:
    kinds = {each.kind for each in CUSTOM_RESOURCES if each.has_spec}
    assert scripts().keys() == kinds


def stream(conditions: Conditions, *, observed: int = 3) -> dict[str, Any]:
    listed = [
        {"type": name, "status": status, "reason": reason, "message": f"{name} says so."}
        for name, (status, reason) in conditions.items()
    ]
    return {
        "metadata": {"generation": 3},
        "status": {"observedGeneration": observed, "conditions": listed},
    }


READY: Final[Conditions] = {
    "Ready": ("True", "AllPartitionsReady"),
    "Degraded": ("False", "AsExpected"),
}


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ({"metadata": {"generation": 1}}, "Progressing"),
        (stream({}), "Progressing"),
        (stream(READY), "Healthy"),
        (stream(READY, observed=2), "Progressing"),
        (stream(READY | {"Progressing": ("True", "RollingOut")}), "Progressing"),
        (stream(READY | {"Reconciling": ("True", "RollingOut")}), "Progressing"),
        (stream(READY | {"Stalled": ("True", "RolloutHeldBack")}), "Degraded"),
        (stream(READY | {"Degraded": ("True", "NodeNotReady")}), "Degraded"),
        (stream({"Ready": ("False", "Suspended")}), "Suspended"),
        (stream({"ReconciliationPaused": ("True", "Annotated")}, observed=2), "Suspended"),
        (stream({"Ready": ("False", "PartitionsNotReady")}), "Progressing"),
    ],
)
def test_a_stream_has_the_health_of_its_conditions(found: dict[str, Any], wanted: str) -> None:
    status, message = check_of("DedupeStream")(found)
    assert status == wanted
    assert message


@pytest.mark.parametrize(
    ("phase", "wanted"),
    [
        (None, "Progressing"),
        ("Pending", "Progressing"),
        ("Running", "Progressing"),
        ("Completed", "Healthy"),
        ("Failed", "Degraded"),
    ],
)
def test_a_snapshot_has_the_health_of_its_phase(phase: str | None, wanted: str) -> None:
    found = {"status": {"phase": phase, "message": "why"}} if phase else {}
    assert check_of("DedupeSnapshot")(found)[0] == wanted


def test_a_definition_fits_into_the_annotation_of_a_client_side_apply() -> None:
    for each in CUSTOM_RESOURCES:
        # The API server's limit is 256 KiB, for all annotations together.
        assert len(json.dumps(each.definition())) < 200 * 1024


def test_the_operator_may_not_change_a_stream_but_its_status() -> None:
    text = (ROOT / "charts/dedupestream/templates/rbac-streams.yaml").read_text()
    rule = r"resources: \[([^]]*\bdedupestreams(?:/\w+)?\b[^]]*)\]\n *verbs: \[(.*)\]"
    assert dict(re.findall(rule, text)) == {
        "dedupestreams": "get, list, watch",
        "dedupestreams/status": "patch",
        "dedupestreams/finalizers, dedupesnapshots/finalizers": "update",
    }
