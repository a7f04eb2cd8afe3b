"""Each alert of the chart, loaded by Prometheus' own tool: it fires when it should, and only then.

The series and the expected alerts are in alerts/, in the form of `promtool test rules`.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.component.chart.rendering import Object, of_kind, render
from tests.support.patience import HANG_SECONDS
from tests.support.prometheus.programs import prometheus_program

CASES = Path(__file__).parent / "alerts"
RUNBOOK = Path(__file__).parents[3] / "docs/alerts.md"
ENABLED: dict[str, Any] = {"metrics": {"prometheusRule": {"enabled": True}}}
LABEL_IN_TEXT = re.compile(r"\$labels\.(\w+)")


def rendered(values: dict[str, Any]) -> Object:
    """The rules of the chart, as a file of Prometheus has them."""
    (rule,) = of_kind(render(values), "PrometheusRule").values()
    spec: Object = rule["spec"]
    return spec


@pytest.fixture(name="spec", scope="module")
def _spec() -> Object:
    return rendered(ENABLED)


def alerts_of(spec: Object) -> dict[str, Object]:
    return {rule["alert"]: rule for group in spec["groups"] for rule in group["rules"]}


def cases() -> Iterator[tuple[str, list[Object]]]:
    """The alert and the expected alerts of each case."""
    for path in sorted(CASES.iterdir()):
        for test in yaml.safe_load(path.read_text())["tests"]:
            for case in test["alert_rule_test"]:
                yield case["alertname"], case["exp_alerts"]


def promtool(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [prometheus_program("promtool"), *map(str, arguments)]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=HANG_SECONDS
    )


def run_cases(
    rules: list[Object], directory: Path, only: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run all cases, or those of one alert, on these rules without their texts."""
    bare = [{key: rule[key] for key in rule if key != "annotations"} for rule in rules]
    groups = [{"name": "rules", "rules": bare}]
    (directory / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    for path in CASES.iterdir():
        file = yaml.safe_load(path.read_text())
        for test in file["tests"]:
            test["alert_rule_test"] = [
                case for case in test["alert_rule_test"] if only in {None, case["alertname"]}
            ]
        file["tests"] = [test for test in file["tests"] if test["alert_rule_test"]]
        if file["tests"]:
            (directory / path.name).write_text(yaml.safe_dump(file))
    files = [path for path in directory.iterdir() if path.name != "rules.yaml"]
    return promtool("test", "rules", *files)


def test_prometheus_loads_the_rules(spec: Object, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump(spec))
    done = promtool("check", "rules", rules)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(alerts_of(spec))} rules found" in done.stdout


def test_alerts_fire_when_they_should_and_only_then(spec: Object, tmp_path: Path) -> None:
    done = run_cases([*alerts_of(spec).values()], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_series_that_fire_and_series_that_do_not(spec: Object) -> None:
    fires = {alert for alert, expected in cases() if expected}
    rests = {alert for alert, expected in cases() if not expected}
    assert fires == rests == alerts_of(spec).keys()


def test_the_cases_notice_an_alert_that_is_broken(spec: Object, tmp_path: Path) -> None:
    for name, alert in alerts_of(spec).items():
        broken = {"never": {"expr": "vector(0) > 1"}, "always": {"expr": "vector(1)"}}
        if "for" in alert:
            broken["at once"] = {"for": "0m"}
            broken["a day late"] = {"for": "1d"}
        for how, change in broken.items():
            directory = tmp_path / f"{name} {how}"
            directory.mkdir()
            done = run_cases([alert | change], directory, only=name)
            assert done.returncode != 0, f"{name} that fires {how} passes its cases"


@pytest.mark.parametrize("kind", ["PodMonitor", "ServiceMonitor"])
def test_alerts_ask_for_the_job_of_workers_that_each_kind_of_monitor_gives(kind: str) -> None:
    field = kind[0].lower() + kind[1:]
    objects = render({"metrics": {field: {"enabled": True}, "prometheusRule": {"enabled": True}}})
    (rule,) = of_kind(objects, "PrometheusRule").values()
    asked = set(re.findall(r'job="([^"]+)"', str(rule["spec"])))
    monitor = of_kind(objects, kind)["dedupestream-workers"]
    assert asked == {_job(monitor)}


def _job(monitor: Object) -> str | None:
    """The label `job` of what the Prometheus operator scrapes by a monitor; None if it differs between targets."""
    if monitor["kind"] == "PodMonitor":
        return f"{monitor['metadata']['namespace']}/{monitor['metadata']['name']}"
    # It is the name of the target's Service, unless it is relabelled.
    (endpoint,) = monitor["spec"]["endpoints"]
    found = (each for each in endpoint.get("relabelings", ()) if each["targetLabel"] == "job")
    return next((each["replacement"] for each in found), None)


def test_texts_name_only_labels_that_the_alert_has(spec: Object) -> None:
    for name, alert in alerts_of(spec).items():
        expected = [each for of, alerts in cases() if of == name for each in alerts]
        known = set.intersection(*({*each["exp_labels"]} for each in expected))
        for text in alert["annotations"].values():
            assert set(LABEL_IN_TEXT.findall(text)) <= known, name


def test_every_alert_links_its_heading_in_the_runbook(spec: Object) -> None:
    headings = re.findall(r"^### (\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    assert set(headings) == alerts_of(spec).keys()
    assert len(headings) == len(set(headings))
    for name, alert in alerts_of(spec).items():
        assert alert["annotations"]["runbook_url"] == f"docs/alerts.md#{name.lower()}"
    values = {"enabled": True, "runbookUrl": "https://wiki.example/dedupestream"}
    for name, alert in alerts_of(rendered({"metrics": {"prometheusRule": values}})).items():
        url = alert["annotations"]["runbook_url"]
        assert url == f"https://wiki.example/dedupestream#{name.lower()}"
