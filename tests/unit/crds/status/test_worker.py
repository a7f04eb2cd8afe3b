from datetime import UTC, datetime

import pytest

from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.worker import (
    Counts,
    InputStatus,
    OutputStatus,
    Phase,
    WindowStatus,
    WorkerStatus,
)

STATUS = WorkerStatus(
    stream="shop/orders",
    partition=3,
    phase=Phase.RUNNING,
    ready=True,
    started_at=datetime(2026, 1, 1, tzinfo=UTC),
    uptime_seconds=1.5,
    input=InputStatus(topic="orders", next_offset=7, end_offset=9, lag_messages=2),
    output=OutputStatus(topic="orders-clean", position=5),
    counts=Counts(consumed=7, without_id=1),
    window=WindowStatus(
        seconds=60.0, bytes=1024, keys=6, generations=1, truncated=False, healthy=True
    ),
)


def test_a_status_survives_the_wire_in_camel_case() -> None:
    body = STATUS.model_dump_json(by_alias=True)
    assert '"nextOffset":7' in body
    assert '"withoutId":1' in body
    assert WorkerStatus.model_validate_json(body) == STATUS


def test_a_field_of_a_newer_worker_is_skipped() -> None:
    document = STATUS.model_dump(mode="json", by_alias=True) | {"mood": "fine"}
    document["counts"]["sighs"] = 3
    assert WorkerStatus.model_validate(document) == STATUS


@pytest.mark.parametrize("code", ExitCode)
def test_only_what_would_end_the_same_way_again_is_final(code: ExitCode) -> None:
    restarted = {ExitCode.OK, ExitCode.FAILED, ExitCode.STUCK}
    assert code.is_final == (code not in restarted)
