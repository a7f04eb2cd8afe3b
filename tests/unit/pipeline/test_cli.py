"""What a user can mend ends the commands with a message, and never with the code of defects."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dedupe_pipeline.cli import main
from dedupe_pipeline.runtime.java import find_java

MANIFEST = """
apiVersion: dedupestream.io/v1alpha1
kind: DedupeStream
metadata: {name: orders, namespace: shop}
spec:
  kafka: {bootstrapServers: "127.0.0.1:9"}
  input: {topic: orders}
  output: {topic: orders-clean}
  id: {from: Key}
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "stream.yaml"
    path.write_text(MANIFEST)
    return path


def audited(manifest: Path, *options: str | Path) -> Result:
    return CliRunner().invoke(main, ["audit", str(manifest), *map(str, options)])


def properties(directory: Path, text: bytes) -> Path:
    path = directory / "client.properties"
    path.write_bytes(text)
    return path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"sasl.username", "line 1: not of the form key=value"),
        (b"sasl.mechanisn=PLAIN", "sasl.mechanisn"),
        (b"security.protocol=SASL_SSSL", "SASL_SSSL"),
        (b"sasl.username=\xff", "is not UTF-8"),
        (b"security.protocol=SSL\nssl.ca.location=/no/such/file", "ssl.ca.location failed"),
    ],
)
def test_a_wrong_properties_file_is_wrong_configuration(
    manifest: Path, tmp_path: Path, text: bytes, told: str
) -> None:
    done = audited(manifest, "--kafka-properties", properties(tmp_path, text))

    assert done.exit_code == 2, done.output
    assert told in done.output
    assert "Traceback" not in done.output


def test_a_file_that_cannot_be_used_is_named_before_the_work(
    manifest: Path, tmp_path: Path
) -> None:
    for missing, told in (
        (audited(tmp_path / "no.yaml"), "no.yaml"),
        (audited(manifest, "--kafka-properties", tmp_path / "no.properties"), "no.properties"),
        (audited(manifest, "--html", tmp_path / "no" / "a.html"), "directory does not exist"),
        (audited(manifest, "--json", tmp_path / "no" / "a.json"), "directory does not exist"),
    ):
        assert missing.exit_code == 2, missing.output
        assert str(tmp_path / "no") in missing.output
        assert told in missing.output


def test_a_page_that_cannot_be_drawn_is_refused_before_the_work(
    manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "dedupe_pipeline.jobs.audit.plots", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    later = ("--kafka-properties", properties(tmp_path, b"sasl.username"))

    done = audited(manifest, "--html", tmp_path / "a.html", *later)

    assert done.exit_code == 2, done.output
    assert "--html: import of matplotlib.axes halted" in done.output
    assert "install this project with its extra 'pipeline'" in done.output
    assert "form key=value" in audited(manifest, *later).output


def test_a_manifest_in_another_namespace_is_refused(manifest: Path) -> None:
    done = audited(manifest, "--namespace", "default")

    assert done.exit_code == 2
    assert "metadata.namespace: shop" in done.output


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--since", "2026-11-01T00:00:00", "--last", "24h"), "give one of them"),
        (("--last", "yesterday"), "--last"),
        (("--since", "yesterday"), "--since"),
        (("--offsets", "3"), "PARTITION:FROM-TO"),
    ],
)
def test_wrong_bounds_are_wrong_usage(manifest: Path, options: tuple[str, ...], told: str) -> None:
    done = audited(manifest, *options)

    assert done.exit_code == 2, done.output
    assert told in done.output


def test_a_broker_that_cannot_be_reached_is_no_defect(manifest: Path) -> None:
    done = audited(manifest)

    assert done.exit_code == 3, done.output
    assert "127.0.0.1:9" in done.output
    assert "Traceback" not in done.output


def test_a_missing_java_is_no_defect(
    manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    find_java.cache_clear()
    try:
        done = audited(manifest)
    finally:
        find_java.cache_clear()

    assert done.exit_code == 3, done.output
    assert f"No java in JAVA_HOME ({tmp_path})" in done.output
    assert "Traceback" not in done.output


def test_help_says_what_the_exit_codes_mean() -> None:
    assert "1 an audit found defects" in " ".join(
        CliRunner().invoke(main, ["--help"]).output.split()
    )
