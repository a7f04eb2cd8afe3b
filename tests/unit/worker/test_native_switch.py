"""The switch of the experimental native path, without the extension."""

import sys

import pytest

from dedupe_kafka.errors import InvalidConfig
from dedupe_worker.cli import NATIVE, component_factory
from dedupe_worker.component_factory import ComponentFactory


def test_it_is_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NATIVE, raising=False)
    assert component_factory() is ComponentFactory
    monkeypatch.setenv(NATIVE, "")
    assert component_factory() is ComponentFactory


def test_without_the_extension_a_worker_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NATIVE, "1")
    monkeypatch.setitem(sys.modules, "dedupe_native.factory", None)
    with pytest.raises(InvalidConfig, match=f"{NATIVE} is set: .*0050"):
        component_factory()
