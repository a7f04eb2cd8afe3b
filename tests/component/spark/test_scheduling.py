"""The lines of the example's crontab do their jobs, and print nothing if all is well."""

from pathlib import Path

import pytest

from tests.support.fixtures import CreateStream
from tests.support.scheduling import Crontab, run_line
from tests.support.spark.landed import expected, landed
from tests.support.traffic.traffic import produce_in_transaction, retries

SEED = 22


@pytest.mark.matrix  # the commands alone: test_the_commands_of_the_page_run in test_cluster.py
def test_cron_audits_and_lands(streams: CreateStream, tmp_path: Path) -> None:
    stream, lake = streams(partitions=2), tmp_path / "lake"
    variables = {"STREAM": str(stream.manifest), "LAKE": str(lake)}
    land, audit = Crontab.read().lines

    done = run_line(audit, tmp_path, variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")  # nothing to judge

    messages = retries(SEED, 500, partitions=2)
    produce_in_transaction(stream.bootstrap_servers, stream.output_topic, messages, commit=True)
    done = run_line(land, tmp_path, variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert landed(lake) == expected(stream.clean())


def test_cron_tells_what_is_wrong(tmp_path: Path) -> None:
    variables = {"STREAM": str(tmp_path / "absent.yaml"), "LAKE": str(tmp_path / "lake")}
    for line in Crontab.read().lines:
        done = run_line(line, tmp_path, variables)
        assert done.returncode == 2
        assert "exit code 2: an option, the manifest or a file is wrong" in done.stdout
        assert "absent.yaml" in done.stdout
