"""The API of every supported version of Kubernetes takes what the chart renders for it."""

from typing import Any

import pytest
import yaml

from tests.cluster.paths import CHART
from tests.component.chart.rendering import Object, of_kind, render, template
from tests.component.chart.values import VALUES
from tests.support.kubernetes_schemas.schemas import MINORS, errors, refused

pytestmark = pytest.mark.proof
MONITORING = "monitoring.coreos.com"
"""The API group of the Prometheus operator, which Kubernetes' own schemas do not have."""


@pytest.mark.parametrize("kubernetes", MINORS)
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_every_object_of_the_chart_is_one_of_this_version(
    values: dict[str, Any], kubernetes: str
) -> None:
    objects = [
        each
        for each in render(values, kubernetes=kubernetes)
        if not each["apiVersion"].startswith(f"{MONITORING}/")
    ]
    assert of_kind(objects, "Deployment")
    assert refused(kubernetes, objects) == {}


def test_the_values_that_are_tried_render_every_template() -> None:
    rendered = "".join(template(values).stdout for values in VALUES.values())
    for each in (CHART / "templates").glob("*.yaml"):
        assert f"# Source: dedupestream/templates/{each.name}\n" in rendered


def test_the_oldest_version_is_the_one_that_the_chart_asks_for() -> None:
    asked = yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"]
    assert asked == f">={MINORS[0]}.0-0"
    major, minor = MINORS[0].split(".")
    older = template({}, kubernetes=f"{major}.{int(minor) - 1}")
    assert "incompatible with Kubernetes" in older.stderr


@pytest.mark.parametrize("kubernetes", MINORS)
def test_a_field_that_no_version_has_is_an_error(kubernetes: str) -> None:
    deployment = _deployment()
    deployment["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    (error,) = errors(kubernetes, deployment)
    assert "'livenesProbe' was unexpected" in error


def test_a_field_is_an_error_before_the_version_that_brought_it() -> None:
    deployment = _deployment()
    deployment["spec"]["template"]["spec"]["resources"] = {"limits": {"cpu": 1}}  # since 1.32
    refusing = [minor for minor in MINORS if errors(minor, deployment)]
    assert refusing == ["1.29", "1.30", "1.31"]


def test_a_value_of_another_type_and_a_field_that_is_absent_are_errors() -> None:
    deployment = _deployment()
    deployment["spec"]["replicas"] = "1"
    del deployment["spec"]["selector"]
    wrong, absent = sorted(errors(MINORS[0], deployment))
    assert absent == "$.spec: 'selector' is a required property"
    assert wrong == "$.spec.replicas: '1' is not of type 'integer'"


def _deployment() -> Object:
    (found,) = of_kind(render({}), "Deployment").values()
    return found
