"""The address of a job's metrics is shown as a URL that can be used."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from dedupe_crds.manifest import load_manifest
from dedupe_pipeline.progress.streaming_job import StreamingJob
from dedupe_pipeline.report.report import Report
from tests.support.processes.loopback import HTTP, has_ipv6

MANIFEST = Path(__file__).parents[4] / "examples" / "flights" / "stream.yaml"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", *(["::1"] if has_ipv6() else [])])
def test_the_shown_url_answers(host: str) -> None:
    shown = io.StringIO()
    report = Report(quiet=False, console=Console(file=shown, width=120))
    job = StreamingJob("land", load_manifest(MANIFEST), "lake.flights", every=None, report=report)

    job.serve(host, 0)

    [url] = re.findall("^metrics: (.*)$", shown.getvalue(), re.MULTILINE)
    assert "dedupe_job_records_total" in HTTP.get(url).raise_for_status().text
