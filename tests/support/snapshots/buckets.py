"""Buckets on a real HTTP server for S3 (moto), behind a faulty proxy."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import boto3
from moto.server import ThreadedMotoServer

from tests.support.patience import HANG_SECONDS
from tests.support.processes.faulty_proxy import (
    Fault,
    FaultyProxy,
    Forward,
    Request,
    answering,
    proxying,
)
from tests.support.snapshots.aws_models import parse_once

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

parse_once()

REGION: Final = "eu-central-1"
KEY_ID = "AKIAOFNOBODY"
SECRET = "a-secret-that-opens-nothing-but-must-not-be-logged"  # noqa: S105 # it gives access to nothing
ALWAYS = 1_000_000


def refusal(status: int, code: str) -> Fault:
    """Return a fault that answers with an error of the service."""
    return answering(
        status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
    )


SLOW_DOWN = refusal(503, "SlowDown")
SERVER_ERROR = refusal(500, "InternalError")
ACCESS_DENIED = refusal(403, "AccessDenied")
NO_SUCH_BUCKET = refusal(404, "NoSuchBucket")


@dataclass(frozen=True)
class TestBucket:
    """A new bucket; streams get the address of `proxy`."""

    __test__ = False  # tells pytest that this is no test class

    name: str
    proxy: FaultyProxy
    client: "S3Client"
    """Calls the server directly, not through the proxy."""

    def snapshots(self, **fields: object) -> dict[str, Any]:
        """Return a `spec.snapshots` with this bucket; `fields` are added to `s3`."""
        s3 = {"bucket": self.name, "region": REGION, "endpoint": self.proxy.url, **fields}
        return {"provider": "S3", "s3": s3}

    def objects(self, under: str = "") -> dict[str, int]:
        """Return the sizes of the objects by key."""
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.name, Prefix=under
        )
        return {each["Key"]: each["Size"] for page in pages for each in page.get("Contents", [])}

    def manifest(self, key: str) -> Any:  # noqa: ANN401 # JSON
        """Read a manifest."""
        return json.loads(self.client.get_object(Bucket=self.name, Key=key)["Body"].read())

    def uploaded(self) -> list[Request]:
        """Return the requests that uploaded files or parts of files."""
        return [each for each in self.proxy.seen if each.method == "PUT" and is_content(each)]


def is_content(request: Request) -> bool:
    """Return whether a request is for the content of a file."""
    return "/objects/" in request.path


def half_of_it(bucket: TestBucket) -> Fault:
    """Return a fault that sends half of the body, and then closes all connections."""

    def fault(request: Request, _: Forward) -> None:
        connection = HTTPConnection(
            urlsplit(bucket.client.meta.endpoint_url).netloc, timeout=HANG_SECONDS
        )
        connection.putrequest(request.method, request.path, skip_host=True)
        for name, value in request.headers.items():
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(request.body)))
        connection.endheaders(request.body[: len(request.body) // 2])
        connection.close()

    return fault


@contextmanager
def bucket_server() -> Iterator[str]:
    """Run an S3 server within the context; yield its address."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@contextmanager
def new_bucket(server: str, name: str) -> Iterator[TestBucket]:
    """Create a bucket, and a proxy for it."""
    client = boto3.client(
        "s3",
        endpoint_url=server,
        region_name=REGION,
        aws_access_key_id=KEY_ID,
        aws_secret_access_key=SECRET,
    )
    client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    with proxying(server) as proxy:
        yield TestBucket(name, proxy, client)


def credentials_file(directory: Path) -> Path:
    """Write a credentials file as the operator mounts it.

    AWS_SHARED_CREDENTIALS_FILE names it.
    """
    path = directory / "credentials"
    path.write_text(f"[default]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\n")
    return path
