"""Additions of a stream, and of the chart's defaults, to the pods of workers and routers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dedupe_crds.spec.pod import PodShape
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources import SHARED, StreamInputs, pod_template, router_stateful_set
from dedupe_operator.resources.pod_parts import PodDefaults, PodIds
from tests.unit.operator.objects import RELEASE, stream

ROUTED = {"spec.repartition": {"partitions": 2}}
SHAPE: dict[str, Any] = {
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "priorityClassName": "high",
    "labels": {"team": "shop"},
    "annotations": {"sidecar.istio.io/inject": "false"},
    "env": [{"name": "TZ", "value": "UTC"}],
    "volumes": [{"name": "scratch", "emptyDir": {}}],
    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch", "readOnly": True}],
    "sidecars": [{"name": "logs", "image": "logs:1", "resources": {"limits": {"cpu": 1}}}],
}

Build = Callable[..., Object]


def worker(changes: dict[str, Any], release: pod_template.WorkerRelease = RELEASE) -> Object:
    return pod_template.build(
        stream(changes), 0, claim="orders-0-1", release=release, secrets_hash="abc"
    )


def router(changes: dict[str, Any], release: pod_template.WorkerRelease = RELEASE) -> Object:
    built = router_stateful_set.build(stream(ROUTED | changes), release=release, secrets_hash="abc")
    assert built is not None
    template: Object = built["spec"]["template"]
    return template


@pytest.fixture(name="build", params=[worker, router], ids=["worker", "router"])
def _build(request: pytest.FixtureRequest) -> Build:
    built: Build = request.param
    return built


def defaults(**shape: object) -> pod_template.WorkerRelease:
    return replace(RELEASE, shape=PodShape.model_validate(shape))


def test_all_that_is_asked_for_is_in_the_pod(build: Build) -> None:
    template, plain = build({"spec.worker": SHAPE}), build({})
    spec = template["spec"]
    for name in ("nodeSelector", "tolerations", "affinity", "priorityClassName"):
        assert spec[name] == SHAPE[name]
    for name in ("labels", "annotations"):
        assert template["metadata"][name] == SHAPE[name] | plain["metadata"][name]
    own, sidecar = spec["containers"]
    assert sidecar == SHAPE["sidecars"][0]
    assert own["env"][-1] == SHAPE["env"][0]
    assert own["volumeMounts"][-1] == SHAPE["volumeMounts"][0]
    assert spec["volumes"][-1] == SHAPE["volumes"][0]


def test_the_chart_may_ask_for_it_too(build: Build) -> None:
    assert build({}, defaults(**SHAPE)) == build({"spec.worker": SHAPE})


def test_a_stream_goes_before_the_defaults_name_by_name(build: Build) -> None:
    release = defaults(
        nodeSelector={"disk": "slow", "zone": "a"},
        env=[{"name": "TZ", "value": "CET"}, {"name": "LANG", "value": "C"}],
        tolerations=[{"operator": "Exists"}],
    )
    template = build({"spec.worker": SHAPE}, release)
    assert template["spec"]["nodeSelector"] == {"disk": "fast", "zone": "a"}
    given = {each["name"]: each.get("value") for each in template["spec"]["containers"][0]["env"]}
    assert given["TZ"] == "UTC"
    assert given["LANG"] == "C"
    assert template["spec"]["tolerations"] == SHAPE["tolerations"]


def test_pods_are_spread_as_asked_among_their_own_kind(build: Build) -> None:
    zones = {
        "topologyKey": "topology.kubernetes.io/zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
    }
    (plain,) = build({})["spec"]["topologySpreadConstraints"]
    template = build({"spec.worker": {"topologySpreadConstraints": [zones]}})
    (spread,) = template["spec"]["topologySpreadConstraints"]
    assert spread == zones | {"labelSelector": plain["labelSelector"]}
    other = {"labelSelector": {"matchLabels": {"team": "shop"}}}
    template = build({"spec.worker": {"topologySpreadConstraints": [zones | other]}})
    assert template["spec"]["topologySpreadConstraints"] == [zones | other]
    in_zones = replace(RELEASE, defaults=PodDefaults(spread_over_zones=True))
    assert len(build({}, in_zones)["spec"]["topologySpreadConstraints"]) == 2
    own = {"spec.worker": {"topologySpreadConstraints": [zones | other]}}
    assert build(own, in_zones)["spec"]["topologySpreadConstraints"] == [zones | other]


@pytest.mark.parametrize("ids", [{"fsGroup": None}, {"runAsUser": 1000680000, "runAsGroup": 0}])
def test_whom_a_pod_runs_as_may_be_left_to_the_platform(build: Build, ids: dict[str, Any]) -> None:
    security = build({}, replace(RELEASE, ids=PodIds.model_validate(ids)))["spec"][
        "securityContext"
    ]
    wanted = {"runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532} | ids
    for name, value in wanted.items():
        assert security.get(name) == value
        assert (name in security) is (value is not None)
    assert security["runAsNonRoot"] is True


def test_secrets_for_images_are_the_accounts_and_restart_nothing(build: Build) -> None:
    secrets = {"spec.worker": {"imagePullSecrets": [{"name": "mirror"}]}}
    assert build(secrets) == build({})
    release = defaults(imagePullSecrets=[{"name": "shared"}])
    account = SHARED[0](StreamInputs(stream=stream(secrets), release=release, admin_token="t"))  # noqa: S106 # no secret
    assert account is not None
    assert account["imagePullSecrets"] == [{"name": "shared"}, {"name": "mirror"}]
    plain = SHARED[0](StreamInputs(stream=stream(), release=RELEASE, admin_token="t"))  # noqa: S106 # no secret
    assert plain is not None
    assert "imagePullSecrets" not in plain
