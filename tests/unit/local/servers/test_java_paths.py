"""Paths of the embedded broker, for Java and in its properties."""

from pathlib import Path

import pytest

from dedupe_local.errors import Refused
from dedupe_local.servers.java_paths import property_value
from dedupe_local.servers.kafka import EmbeddedBroker


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("/data/orders", "/data/orders"),
        ("/data/bestellungen für köln", r"/data/bestellungen f\u00fcr k\u00f6ln"),
        ("/data/back\\slash", r"/data/back\\slash"),
        ("/data/\U0001f600", r"/data/\ud83d\ude00"),
        ("/data/a=b#c!d", "/data/a=b#c!d"),
        ("/data/new\nline\ttab", r"/data/new\u000aline\u0009tab"),
    ],
)
def test_a_value_is_written_as_java_reads_it(path: str, written: str) -> None:
    """Java reads properties as ISO-8859-1, and takes a backslash for the begin of an escape."""
    assert property_value(path) == written
    written.encode("ascii")


@pytest.mark.parametrize(
    ("directory", "why"), [("a,b", "','"), ("a:b", "':'"), ("a\udcff", "not UTF-8")]
)
def test_a_path_that_java_takes_for_several_is_refused_by_name(
    tmp_path: Path, directory: str, why: str
) -> None:
    with pytest.raises(Refused, match=rf"{why}.*--state-dir"):
        EmbeddedBroker(tmp_path / directory).start()
    assert not list(tmp_path.iterdir())
