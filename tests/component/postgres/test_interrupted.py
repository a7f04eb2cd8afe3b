"""An `aggregate` that a signal ends before it is done does not end with 0."""

import re
import signal
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.fixtures import CreateStream
from tests.support.patience import wait_for
from tests.support.postgres.aggregate_truth import job, messages, truth
from tests.support.postgres.aggregated import check, read_accounts
from tests.support.postgres.server import TestDatabase, database, postgres_server
from tests.support.processes.process_group import process_group
from tests.support.spark.session import LOCAL
from tests.support.traffic.traffic import produce_in_transaction

__all__ = ["database", "postgres_server"]

SEED = 20
MESSAGES = 3_000
DEADLINE_SECONDS = 240
JOB = job("flights")


def counted(database: TestDatabase) -> int:
    if not database.has("dedupestream_offsets"):
        return 0
    return sum(account.records for account in read_accounts(database).values())


@pytest.mark.matrix  # the landing in tests/component/spark/test_interrupted.py
@pytest.mark.timeout(900)  # three Spark sessions in sequence
def test_a_count_that_is_stopped_early_ends_with_the_code_of_the_signal(
    streams: CreateStream, database: TestDatabase, tmp_path: Path
) -> None:
    stream, log = streams(partitions=2), tmp_path / "log"
    sent = list(messages(SEED, MESSAGES, partitions=2))
    produce_in_transaction(stream.bootstrap_servers, stream.output_topic, sent, commit=True)
    job_file = tmp_path / "job.yaml"
    job_file.write_text(yaml.safe_dump({"table": JOB.table, **JOB.definition()}))
    command = [
        *("/bin/sh", "-c", 'exec "$@" >"$0" 2>&1', str(log)),
        *(
            sys.executable,
            "-m",
            "dedupe_pipeline",
            "aggregate",
            str(stream.manifest),
            str(job_file),
        ),
        f"--postgres-url={database.url}",
        *LOCAL,
    ]
    seen = 0

    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        with process_group([*command, "--max-offsets-per-trigger=50"]) as process:
            wait_for(lambda: counted(database) > seen, "a batch", explain=log.read_text)  # noqa: B023
            process.send_signal(number)
            assert process.wait(DEADLINE_SECONDS) == code, log.read_text()
        seen = counted(database)
        assert seen < MESSAGES, "it was stopped too late to prove anything"
        said = (
            rf"stopped by {number.name} after \d+ records in .* to flights; left are offsets \d+ to"
        )
        assert re.search(said, log.read_text())

    with process_group(command) as process:
        assert process.wait(DEADLINE_SECONDS) == 0, log.read_text()
    # Records are grouped to rows, so there are fewer of them.
    [(records, rows)] = re.findall(
        r"^batch 0: ([\d,]+) records, ([\d,]+) rows in ", log.read_text(), re.MULTILINE
    )
    assert 0 < int(rows.replace(",", "")) < int(records.replace(",", ""))
    check(database, JOB, truth(stream.clean(), JOB))
