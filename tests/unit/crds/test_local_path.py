"""A path is one of this machine, or refused."""

from pathlib import Path

import pytest

from dedupe_crds.local_path import NotLocal, local_path


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/data/orders", "/data/orders"),
        ("orders", "orders"),
        ("a:b/c", "a:b/c"),
        ("2026-11-21T10:00/x", "2026-11-21T10:00/x"),
        ("file:///data/orders", "/data/orders"),
        ("file:/data/orders", "/data/orders"),
        ("file://localhost/data/my%20orders", "/data/my orders"),
        (Path("file:///data/orders"), "/data/orders"),
    ],
)
def test_a_path_and_a_file_url_name_a_file_here(given: str | Path, path: str) -> None:
    assert local_path(given) == Path(path)


@pytest.mark.parametrize(
    "given",
    ["s3a://lake/orders", "hdfs://name:9000/x", "hdfs:/x", "HTTPS://host/x", Path("s3://lake/x")],
)
def test_another_url_is_refused(given: str | Path) -> None:
    with pytest.raises(NotLocal, match="is not on a file system of this machine"):
        local_path(given)


def test_a_file_url_of_another_host_is_refused() -> None:
    with pytest.raises(NotLocal, match="is on host nas: write file:///PATH"):
        local_path("file://nas/data")
