"""`kubectl dedupe lookup` and `forget`, against a small API server over HTTP."""

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dedupe_kubectl.cli import main
from tests.unit.kubectl.api_server import PODS, ApiServer, api_server, refused
from tests.unit.kubectl.documents import partition, pod, stream

TOKEN = "a token"  # noqa: S105 # it opens nothing
SECRET = "/api/v1/namespaces/shop/secrets/orders-admin"  # noqa: S105 # a path
KNOWN = {
    "id": "a",
    "known": True,
    "owner": {"partition": 1, "offset": 1207},
    "timestamp": "2026-11-21T08:00:00Z",
    "generation": "g00000003",
}


@pytest.fixture(name="api")
def _api(tmp_path: Path) -> Iterator[ApiServer]:
    with api_server(tmp_path / "config") as api:
        api.holds(
            stream(spec={"id": {"from": "Key"}}, partitions=[partition(0), partition(1)]),
            pods=(pod(0), pod(1)),
        )
        api.answers[SECRET] = (200, {"data": {"token": b64encode(TOKEN.encode()).decode()}})
        yield api


def answers(api: ApiServer, call: str, *said: object) -> None:
    """What the workers of partitions 0, 1, … answer to a call."""
    for number, body in enumerate(said):
        api.answers[worker_path(number, call)] = (503, "busy") if body is None else (200, body)


def worker_path(number: int, call: str) -> str:
    return f"POST {PODS}/orders-{number}-0:8080/proxy/{call}"


def run(api: ApiServer, *arguments: str) -> Result:
    done = CliRunner(env={"NO_COLOR": "1"}).invoke(
        main, [*arguments, "--kubeconfig", str(api.kubeconfig)]
    )
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def unknown(*ids: str) -> dict[str, Any]:
    return {"ids": [{"id": one, "known": False} for one in ids]}


def test_an_id_is_shown_with_its_owner_and_where_it_is_known(api: ApiServer) -> None:
    answers(api, "lookup", unknown("a"), {"ids": [KNOWN]})
    done = run(api, "lookup", "orders", "a")
    assert done.exit_code == 0
    head, row = done.output.splitlines()
    assert head.split() == [
        "ID",
        "KNOWN",
        "PARTITION",
        "FIRST",
        "SEEN",
        "IN",
        "SINCE",
        "GENERATION",
    ]
    assert row.split() == ["a", "yes", "1", "1:1207", "2026-11-21", "08:00:00", "g00000003"]
    assert [body for _, body in api.created] == [{"ids": ["a"]}] * 2


def test_one_that_nobody_knows_is_told_by_the_exit_code_as_well(api: ApiServer) -> None:
    answers(api, "lookup", unknown("a", "b"), {"ids": [KNOWN, {"id": "b", "known": False}]})
    done = run(api, "lookup", "orders", "a", "b", "-o", "json")
    assert done.exit_code == 1
    [first, second] = json.loads(done.output)["items"]
    assert (first["known"], first["partition"], first["owner"]["offset"]) == (True, 1, 1207)
    assert second == {"id": "b", "known": False}


def test_one_whose_owner_only_the_output_knew_has_none(api: ApiServer) -> None:
    vague = {
        **KNOWN,
        "owner": None,
        "timestamp": None,
        "seenAfter": "2026-11-20T00:00:00Z",
        "seenBefore": "2026-11-21T00:00:00Z",
    }
    answers(api, "lookup", unknown("a"), {"ids": [vague]})
    row = run(api, "lookup", "orders", "a").output.splitlines()[1]
    assert " unknown " in row
    assert "2026-11-20 00:00:00 to 2026-11-21 00:00:00" in row


def test_what_was_forgotten_is_counted_over_all_partitions(api: ApiServer) -> None:
    answers(api, "forget", {"forgotten": 1}, {"forgotten": 0})
    done = run(api, "forget", "orders", "a", "b")
    assert done.output == "orders: 1 of 2 ids forgotten; the others were not known\n"


def test_what_remembers_them_again_is_said_at_once(api: ApiServer) -> None:
    note = "a rebuild remembers them again"
    answers(api, "forget", {"forgotten": 1, "note": note}, {"forgotten": 0, "note": note})
    done = run(api, "forget", "orders", "a")
    assert done.output == f"orders: 1 of 1 ids forgotten\nnote: {note}\n"


@pytest.mark.parametrize("call", ["lookup", "forget"])
def test_a_worker_that_does_not_answer_is_named_rather_than_taken_for_no(
    api: ApiServer, call: str
) -> None:
    answers(api, call, unknown("a"), None)
    done = run(api, call, "orders", "a")
    assert done.exit_code == 3
    assert "partition 1 did not answer" in done.output


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (400, {"title": "400 Bad Request", "description": "send 1 to 1000 texts"}),
        (401, {"title": "Admin token needed", "description": "send Authorization"}),
        (403, {"title": "Admin calls are off", "description": "start it with a token"}),
        (500, {"title": "DiskFull", "description": "the volume has no room"}),
        (503, {"title": "Busy", "description": "see /readyz"}),
    ],
)
def test_what_a_worker_refuses_is_told_in_its_own_words(
    api: ApiServer, code: int, said: dict[str, str]
) -> None:
    answers(api, "forget", {"forgotten": 1})
    api.answers[worker_path(1, "forget")] = (code, said)
    done = run(api, "forget", "orders", "a")
    assert done.exit_code == 3
    words = f"{said['title']}: {said['description']}; the others succeeded"
    assert f"the worker of partition 1 refused: {words}" in done.output


def test_what_all_workers_refuse_is_told_once(api: ApiServer) -> None:
    for number in (0, 1):
        api.answers[worker_path(number, "lookup")] = (400, {"title": "400 Bad Request"})
    done = run(api, "lookup", "orders", "")
    assert "the worker of partition 0-1 refused: 400 Bad Request. Repeat the command" in done.output


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (refused(403, "pods is forbidden"), "you may not create pods/proxy in namespace shop"),
        (refused(401, "Unauthorized"), "does not accept your credentials: log in again"),
        ((403, "no"), "you may not create pods/proxy in namespace shop"),
        (refused(503, "error trying to reach service"), "partition 1 did not answer; the others"),
    ],
)
def test_what_the_api_server_refuses_is_not_taken_for_the_workers_word(
    api: ApiServer, refusal: tuple[int, Any], told: str
) -> None:
    answers(api, "forget", {"forgotten": 1})
    api.answers[worker_path(1, "forget")] = refusal
    done = run(api, "forget", "orders", "a")
    assert done.exit_code == 3
    assert told in done.output


@pytest.mark.parametrize("call", ["lookup", "forget"])
def test_without_all_workers_nothing_is_asked(api: ApiServer, call: str) -> None:
    api.holds(
        stream(spec={"id": {"from": "Key"}}, partitions=[partition(0), partition(1)]),
        pods=(pod(0), pod(1, ready=False)),
    )
    done = run(api, call, "orders", "a")
    assert done.exit_code == 3
    assert "no ready worker for partition 1" in done.output
    assert api.created == []


def test_ids_that_are_hashes_of_content_cannot_be_asked_for(api: ApiServer) -> None:
    api.holds(stream(spec={"id": {"from": "Content"}}, partitions=[partition(0)]), pods=(pod(0),))
    done = run(api, "lookup", "orders", "a")
    assert "hashes of whole messages" in done.output


def test_the_right_that_is_missing_is_named(api: ApiServer) -> None:
    api.answers[SECRET] = refused(403, "secrets is forbidden", "orders-admin")
    done = run(api, "forget", "orders", "a")
    assert "get secret orders-admin" in done.output
    assert api.created == []


def test_the_token_goes_in_a_header_of_its_own_and_is_not_shown(api: ApiServer) -> None:
    answers(api, "forget", {"forgotten": 0}, None)
    done = run(api, "forget", "orders", "a")
    assert api.tokens == [TOKEN, TOKEN]
    assert TOKEN not in done.output
