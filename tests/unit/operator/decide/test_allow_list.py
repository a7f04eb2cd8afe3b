"""Images and servers that a platform allows, and those that only look like them."""

import pytest

from dedupe_operator.decide.allow_list import AllowList
from tests.unit.operator.objects import stream


def refuses_image(image: str, *allowed: str) -> bool:
    of = stream({"spec.worker": {"image": image}})
    return AllowList(images=allowed).refusal(of) is not None


def refuses_servers(servers: str, *allowed: str) -> bool:
    of = stream({"spec.kafka.bootstrapServers": servers})
    return AllowList(bootstrap_servers=allowed).refusal(of) is not None


def test_everything_is_allowed_without_a_list() -> None:
    of = stream({"spec.worker": {"image": "anywhere/at:all"}})
    assert AllowList().refusal(of) is None


@pytest.mark.parametrize(
    ("image", "allowed"),
    [
        ("registry.example/worker:1", "registry.example/worker:1"),
        ("registry.example/worker:2", "registry.example/worker"),
        ("registry.example/worker@sha256:ab", "registry.example/worker"),
        ("registry.example/team/worker:2", "registry.example/team"),
        ("registry.example/team/worker:2", "registry.example/"),
        ("registry.example:5000/worker", "registry.example:5000"),
        ("localhost/worker", "localhost"),
        ("team/worker", "team/"),
        ("busybox:1", "busybox"),
        ("busybox@sha256:ab", "busybox"),
    ],
)
def test_an_image_below_what_is_allowed_is(image: str, allowed: str) -> None:
    assert not refuses_image(image, "other.example", allowed)


@pytest.mark.parametrize(
    ("image", "allowed"),
    [
        ("registry.example/worker:11", "registry.example/worker:1"),
        ("registry.example/workers:1", "registry.example/worker"),
        ("registry.example.evil/worker", "registry.example"),
        ("registry.example:5000/worker", "registry.example"),
        ("evil.example/registry.example/worker", "registry.example"),
        ("worker:1", "registry.example"),
        ("busybox/miner", "busybox"),
        ("/worker", "registry.example"),
    ],
)
def test_an_image_that_only_begins_alike_is_not(image: str, allowed: str) -> None:
    assert refuses_image(image, allowed)


def test_images_of_sidecars_and_volumes_count() -> None:
    allowed = AllowList(images=("registry.example",))
    sidecar = stream({"spec.worker": {"sidecars": [{"name": "mine", "image": "evil/miner"}]}})
    refusal = allowed.refusal(sidecar)
    assert refusal is not None
    assert refusal.reason == "NotAllowed"
    assert "spec.worker.sidecars[0].image: evil/miner" in refusal.message
    nameless = stream({"spec.worker": {"sidecars": [{"name": "mine"}]}})
    assert allowed.refusal(nameless)
    volume = {"name": "tools", "image": {"reference": "evil/tools"}}
    assert allowed.refusal(stream({"spec.worker": {"volumes": [volume]}}))
    assert allowed.refusal(stream()) is None, "the operator's own image needs no entry"


@pytest.mark.parametrize(
    ("servers", "allowed"),
    [
        ("kafka:9092", "kafka:9092"),
        ("kafka:9093", "kafka"),
        ("KAFKA.example:9092", "kafka.example"),
        ("b1.kafka.example:9092,b2.kafka.example:9092", "*.kafka.example"),
        ("b1.kafka.example:9092", "*.kafka.example:9092"),
        ("[fd00::1]:9092", "[fd00::1]"),
        ("[fd00::1]:9092", "[fd00::1]:9092"),
    ],
)
def test_a_server_that_is_allowed_is(servers: str, allowed: str) -> None:
    assert not refuses_servers(servers, "other", allowed)


@pytest.mark.parametrize(
    ("servers", "allowed"),
    [
        ("kafka:9093", "kafka:9092"),
        ("kafka.evil:9092", "kafka"),
        ("kafka.example:9092", "*.kafka.example"),
        ("evilkafka.example:9092", "*.kafka.example"),
        ("b1.kafka.example:22", "*.kafka.example:9092"),
        ("kafka:9092,10.0.0.1:22", "kafka"),
        ("[fd00::2]:9092", "[fd00::1]"),
    ],
)
def test_a_server_that_is_not_allowed_is_not(servers: str, allowed: str) -> None:
    assert refuses_servers(servers, allowed)
