"""Fixtures of tests that need a bucket, imported by their modules or conftest.py."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.snapshots.buckets import TestBucket, bucket_server, credentials_file, new_bucket


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """Run one S3 server for the whole session."""
    with bucket_server() as address:
        yield address


@pytest.fixture
def bucket(s3_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestBucket]:
    """Create a bucket for the test.

    The environment names a file with its credentials, and no other credentials.
    """
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials_file(tmp_path)))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with new_bucket(s3_server, f"snapshots-{uuid4().hex[:8]}") as made:
        yield made
