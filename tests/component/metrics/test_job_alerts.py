"""The example of docs/scheduling.md that watches streaming jobs is read by Prometheus, and its alerts fire."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dedupe_pipeline.progress.metrics import JobMetrics
from dedupe_pipeline.progress.micro_batches import Batch
from tests.support.patience import HANG_SECONDS
from tests.support.prometheus.programs import prometheus_program

PAGE = (Path(__file__).parents[3] / "docs/scheduling.md").read_text()
EXAMPLES: list[dict[str, Any]] = [
    yaml.safe_load(text)
    for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
]
LABELS = '{command="land", stream="shop/orders", target="/data/orders", job="dedupestream-jobs", instance="lake:1"}'
# Of each minute: behind from the start, batches until minute 10, gone from minute 40 on.
SERIES = {
    "dedupe_job_lag_offsets": "6000000x60",
    "dedupe_job_last_progress_timestamp_seconds": "0+60x10 600x50",
    "up": "1x39 0x21",
}


def promtool(*arguments: object) -> str:
    command = [prometheus_program("promtool"), *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def written(directory: Path, name: str, content: Any) -> Path:  # noqa: ANN401 # a YAML document
    path = directory / name
    path.write_text(yaml.safe_dump(content))
    return path


def test_prometheus_reads_both(tmp_path: Path) -> None:
    scrape, rules = EXAMPLES
    promtool("check", "config", written(tmp_path, "prometheus.yml", scrape))
    assert "3 rules found" in promtool("check", "rules", written(tmp_path, "rules.yml", rules))


@pytest.mark.parametrize(
    ("minute", "alerts"),
    [
        (9, set()),
        (20, set()),
        (31, {"DedupeJobBehind", "DedupeJobStandsStill"}),
        (50, {"DedupeJobBehind", "DedupeJobStandsStill", "DedupeJobDown"}),
    ],
)
def test_each_alert_fires_in_its_case_only(tmp_path: Path, minute: int, alerts: set[str]) -> None:
    rules = written(tmp_path, "rules.yml", EXAMPLES[1])
    names = [rule["alert"] for rule in EXAMPLES[1]["groups"][0]["rules"]]
    # promtool has no test of "fires, with whatever labels", so the series ALERTS is asked.
    expected = [
        {
            "expr": f'count(ALERTS{{alertname="{name}", alertstate="firing"}}) or vector(0)',
            "eval_time": f"{minute}m",
            "exp_samples": [{"value": int(name in alerts), "labels": "{}"}],
        }
        for name in names
    ]
    series = [{"series": f"{name}{LABELS}", "values": text} for name, text in SERIES.items()]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": expected}
    suite = {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [test]}
    promtool("test", "rules", written(tmp_path, "test.yml", suite))


def test_each_metric_of_the_page_is_served_and_each_that_is_served_is_on_it() -> None:
    metrics = JobMetrics(command="land", stream="shop/orders", target="/data/orders")
    metrics.batch_done(Batch(number=1, records=3, rows=None, offsets=4, lag=5, seconds=0.5))
    served = {
        sample.name
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name.startswith("dedupe_") and not sample.name.endswith("_created")
    }
    assert set(re.findall(r"dedupe_job_[a-z_]+", PAGE)) == served


def test_lag_is_gone_when_there_is_nothing_to_do() -> None:
    metrics = JobMetrics(command="land", stream="shop/orders", target="/data/orders")
    metrics.batch_done(Batch(number=1, records=3, rows=3, offsets=4, lag=5, seconds=0.5))
    labels = {"command": "land", "stream": "shop/orders", "target": "/data/orders"}
    assert metrics.registry.get_sample_value("dedupe_job_lag_offsets", labels) == 5
    metrics.idle()
    assert metrics.registry.get_sample_value("dedupe_job_lag_offsets", labels) == 0
    assert metrics.registry.get_sample_value("dedupe_job_rows_total", labels) == 3
