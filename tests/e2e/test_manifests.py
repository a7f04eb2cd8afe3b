"""What `kubectl apply` says of a manifest: refused for each mistake in it, in words that tell what to mend."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dedupe_crds.manifest import ManifestError, parse_manifest
from dedupe_crds.openapi import SNAPSHOT_PLURAL, STREAMS
from dedupe_crds.spec.stream import API_VERSION, GROUP
from tests.cluster.environment import Environment
from tests.e2e.support.api_server import Answer, ApiServer
from tests.e2e.support.kubectl import Kubectl, Object
from tests.e2e.support.namespaces import make_namespace
from tests.unit.crds.manifests import (
    ALL_AT_ONCE,
    BAD_MANIFESTS,
    GOOD_CHANGES,
    BadManifest,
    changed,
)

pytestmark = pytest.mark.proof

SEEN_BY_THE_SERVER = [case for case in BAD_MANIFESTS if case.server is not None]

# What a schema can't say in our words, and how the API server says it.
IN_THE_SERVERS_WORDS = (
    (r"unknown field|is not a field name", r'unknown field "{path}"'),
    (r"is not allowed", r"{path}: Unsupported value: .* supported values: "),
    (r"is required", r"{path}: Required value"),
    (r"is too long", r"{path}: Too long: may not be more than [0-9]+ bytes"),
    (r"is empty", r"{path}: Invalid value: .* should have at least 1 items"),
    (r"is out of bounds", r"{path}: .* should be (greater|less) than or equal to [0-9]+"),
    (r"is not (a size|a duration|a Kubernetes quantity)", r"{path}: .*(should match|must be of type)"),
    (r"is not (text|a mapping|a list|true or false|a whole number)", r"{path}: .* must be of type "),
)  # fmt: skip


@pytest.fixture(scope="module")
def api_server(release: Environment) -> ApiServer:
    return ApiServer(release)


@pytest.fixture(scope="module")
def snapshots(release: Environment) -> ApiServer:
    return ApiServer(release, SNAPSHOT_PLURAL)


@pytest.fixture(scope="module")
def room(release: Environment) -> Iterator[str]:
    """A namespace for what has to be there to be changed."""
    kubectl = Kubectl(release)
    name = make_namespace(kubectl, "manifests")
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


def rule_messages(node: Object) -> Iterator[str]:
    """The message of every rule of a schema."""
    for rule in node.get("x-kubernetes-validations", ()):
        yield rule["message"]
    for inner in (*node.get("properties", {}).values(), node.get("items")):
        if isinstance(inner, dict):
            yield from rule_messages(inner)


RULES = sorted(set(rule_messages(STREAMS.schema())), key=len, reverse=True)


def expected(case: BadManifest) -> list[str]:
    """For each problem of a manifest, the pattern of what the API server must say."""
    if case.server:
        return [re.escape(case.server)]
    with pytest.raises(ManifestError) as refused:
        parse_manifest(changed(case.changes), "bad")
    return [in_the_servers_words(line) for line in refused.value.problems]


def in_the_servers_words(told: str) -> str:
    """The pattern of what the API server must say where Python says `path: sentence`."""
    path, _, sentence = told.partition(": ")
    if rule := next((rule for rule in RULES if sentence.endswith(rule)), None):
        return f"{_in_the_servers_form(path)}: .*{re.escape(rule)}"
    for ours, theirs in IN_THE_SERVERS_WORDS:
        if re.search(ours, sentence):
            return theirs.replace("{path}", _in_the_servers_form(path))
    raise AssertionError(f"no words of the API server are known for: {told}")


def _in_the_servers_form(path: str) -> str:
    """The pattern of a path: a number may be a key, or the place of an item in a list."""
    return re.sub(r"\\\.(\d+)\b", r"(\\.\1|\\[\1\\])", re.escape(path))


@pytest.mark.parametrize("case", SEEN_BY_THE_SERVER, ids=str)
def test_a_bad_manifest_is_refused_with_what_is_wrong(
    api_server: ApiServer, case: BadManifest
) -> None:
    answer = api_server.create(changed(case.changes))
    assert answer.accepted is None
    for pattern in expected(case):
        assert any(re.search(pattern, line) for line in answer.problems), answer.problems


@pytest.mark.parametrize("changes", GOOD_CHANGES, ids=str)
def test_a_good_manifest_gets_the_defaults_of_the_model(
    api_server: ApiServer, changes: dict[str, Any]
) -> None:
    document = changed(changes)
    answer = api_server.create(document)
    assert answer.accepted is not None, answer.problems
    kept, read = (
        parse_manifest(each, "good").model_dump(mode="json", by_alias=True, exclude_none=True)
        for each in (answer.accepted, document)
    )
    assert kept["spec"] == read["spec"]
    assert paths(answer.accepted["spec"]) == paths(read["spec"])


def paths(value: object, path: str = "spec") -> set[str]:
    """Every field that has a value; an empty mapping or list is none."""
    if value == []:
        return set()
    if not isinstance(value, dict):
        return {path}
    return {each for name, inner in value.items() for each in paths(inner, f"{path}.{name}")}


def test_kubectl_shows_each_problem_of_a_manifest_at_its_field(kubectl: Kubectl) -> None:
    known = {path: value for path, value in ALL_AT_ONCE.changes.items() if path != "spec.kafak"}
    # A value of a wrong type keeps the API server from the rules between fields.
    wrong = changed(known | {"spec.suspend": True, "spec.storage.size": "1Gi"})
    told = kubectl.refused("apply", "--dry-run=server", "-f", "-", given=json.dumps(wrong))
    assert 'The DedupeStream "orders" is invalid' in told
    for path in ("spec.id.name", "spec.store.window.maxBytes", "spec.output.topic"):
        assert f"* {path}: Invalid value: " in told


Change = Callable[..., Answer]


def kept(api_server: ApiServer, room: str, name: str) -> Change:
    """Keep a stream that the operator keeps off; what is returned asks what would come of a change of its spec."""
    document = changed({"spec.id": {"from": "Header", "name": "id"}, "spec.storage.size": "20Gi"})
    paused = {f"{GROUP}/pause-reconciliation": "true"}
    document["metadata"] = {"name": name, "annotations": paused}
    answer = api_server.create(document, room, dry_run=False)
    assert answer.accepted is not None, answer.problems
    return lambda **spec: api_server.change(room, name, {"spec": spec})


@pytest.fixture(scope="module")
def change(api_server: ApiServer, room: str) -> Change:
    """Ask what would come of a change of a stream without routers."""
    return kept(api_server, room, "plain")


def test_what_must_never_change_is_refused_and_the_rest_may(change: Change) -> None:
    for refused, problem in (
        (change(input={"topic": "others"}), r"spec\.input\.topic: .*never changes"),
        (change(output={"topic": "others"}), r"spec\.output\.topic: .*never changes"),
        (change(id={"name": "other"}), r"spec\.id: .*never changes"),
        (change(id={"from": "Key", "name": None}), r"spec\.id: .*never changes"),
        (change(storage={"size": "19Gi"}), r"spec\.storage\.size: .*must not shrink"),
    ):
        assert refused.accepted is None
        assert any(re.search(problem, line) for line in refused.problems), refused.problems
    accepted = change(
        kafka={"bootstrapServers": "elsewhere:9092"},
        store={"window": {"maxBytes": "4Gi", "maxAge": "7d"}},
        storage={"size": "30Gi"},
        mode="Observe",
        suspend=True,
    )
    assert accepted.accepted is not None, accepted.problems


ADDED = {"partitions": 4}
KEEPS_INPUT = r"spec\.input: .*must keep the topic that the stream has read without routers"


@pytest.mark.parametrize(
    "source",
    [
        {"topic": "orders"},
        {"topic": None, "topics": ["returns", "orders"]},
        {"topic": None, "pattern": "ord.*"},
        {"topic": None, "pattern": "x|orders"},
    ],
    ids=str,
)
def test_routers_may_be_added_while_the_old_input_stays(change: Change, source: Object) -> None:
    answer = change(input=source, repartition=ADDED)
    assert answer.accepted is not None, answer.problems


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"input": {"topic": "others"}}, KEEPS_INPUT),
        ({"input": {"topic": None, "topics": ["others"]}}, KEEPS_INPUT),
        ({"input": {"topic": None, "pattern": "order"}}, KEEPS_INPUT),
        ({"input": {"topic": None, "pattern": "x.*|y"}}, KEEPS_INPUT),
        ({"input": {"addedPartitions": "Accept"}}, r"spec\.repartition: .*in the same change"),
        ({"output": {"topic": "others"}}, r"spec\.output\.topic: .*never changes"),
        ({"id": {"name": "other"}}, r"spec\.id: .*never changes"),
    ],
    ids=str,
)
def test_what_may_not_change_while_routers_are_added(
    change: Change, spec: Object, problem: str
) -> None:
    answer = change(**{"repartition": ADDED, **spec})
    assert answer.accepted is None
    assert any(re.search(problem, line) for line in answer.problems), answer.problems


def test_the_same_size_in_other_words_is_no_shrinking(change: Change) -> None:
    answer = change(storage={"size": 20 * 1024**3})
    assert answer.accepted is not None, answer.problems


def test_routers_are_never_removed(api_server: ApiServer, room: str) -> None:
    change = kept(api_server, room, "routed")
    added = {"spec": {"repartition": ADDED}}
    answer = api_server.change(room, "routed", added, dry_run=False)
    assert answer.accepted is not None, answer.problems
    for changes, problem in (
        ({"repartition": None}, r"spec\.repartition: .*is never removed"),
        ({"repartition": {"partitions": 3}}, r"spec\.repartition\.partitions: .*never lowered"),
        ({"repartition": {"by": "Key"}}, r"spec\.repartition\.by: .*never changes"),
    ):
        answer = change(**changes)
        assert answer.accepted is None
        assert any(re.search(problem, line) for line in answer.problems), answer.problems
    answer = change(input={"topic": "others"})
    assert answer.accepted is not None, answer.problems


def snapshot(**spec: object) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": "DedupeSnapshot",
        "metadata": {"name": "a"},
        "spec": {"streamRef": {"name": "orders"}, **spec},
    }


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"streamRef": {}}, r"spec\.streamRef\.name: Required value"),
        ({"streamRef": {"name": "Orders"}}, r"spec\.streamRef\.name: .*must be lower-case letters"),
        ({"partitions": [-1]}, r"spec\.partitions\[0\]: .*greater than or equal to 0"),
        ({"partitions": ["0"]}, r"spec\.partitions\[0\]: .*must be of type integer"),
        ({"partitions": list(range(1025))}, r"spec\.partitions: Too many"),
        ({"keep": 1}, r'unknown field "spec\.keep"'),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else "",
)
def test_a_bad_snapshot_is_refused_with_what_is_wrong(
    snapshots: ApiServer, spec: dict[str, Any], problem: str
) -> None:
    answer = snapshots.create(snapshot(**spec))
    assert answer.accepted is None
    assert any(re.search(problem, line) for line in answer.problems), answer.problems


def test_what_a_snapshot_is_of_never_changes(snapshots: ApiServer, room: str) -> None:
    snapshots.create(snapshot(), room, dry_run=False)
    answer = snapshots.change(room, "a", {"spec": {"partitions": [1]}})
    (problem,) = answer.problems
    assert re.search(r"spec: .*never changes; create another snapshot instead", problem)
