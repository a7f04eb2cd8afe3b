"""A bucket behind a real HTTP server that speaks S3 (moto's), with a faulty proxy between it and who asks."""

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

from tests.support.processes.faulty_proxy import (
    Fault,
    FaultyProxy,
    Forward,
    Request,
    answering,
    proxying,
)

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

REGION: Final = "eu-central-1"
KEY_ID = "AKIAOFNOBODY"
SECRET = "a-secret-that-opens-nothing-but-must-not-be-logged"  # noqa: S105 # it opens nothing
ALWAYS = 1_000_000


def refusal(status: int, code: str) -> Fault:
    """How the service says no."""
    return answering(
        status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
    )


SLOW_DOWN = refusal(503, "SlowDown")
SERVER_ERROR = refusal(500, "InternalError")
ACCESS_DENIED = refusal(403, "AccessDenied")
NO_SUCH_BUCKET = refusal(404, "NoSuchBucket")


@dataclass(frozen=True)
class TestBucket:
    """A new bucket; `proxy` is where a stream is told to find it."""

    __test__ = False  # to pytest: a name, not a class of tests

    name: str
    proxy: FaultyProxy
    client: "S3Client"
    """Asks the server itself, past the proxy."""

    def snapshots(self, **fields: object) -> dict[str, Any]:
        """The `spec.snapshots` of a stream that keeps its snapshots here; `fields` are those of `s3`."""
        s3 = {"bucket": self.name, "region": REGION, "endpoint": self.proxy.url, **fields}
        return {"provider": "S3", "s3": s3}

    def objects(self, under: str = "") -> dict[str, int]:
        """Sizes by key."""
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.name, Prefix=under
        )
        return {each["Key"]: each["Size"] for page in pages for each in page.get("Contents", [])}

    def manifest(self, key: str) -> Any:  # noqa: ANN401 # JSON
        """A manifest's content."""
        return json.loads(self.client.get_object(Bucket=self.name, Key=key)["Body"].read())

    def uploaded(self) -> list[Request]:
        """The requests that carried contents of files, or parts of them."""
        return [each for each in self.proxy.seen if each.method == "PUT" and is_content(each)]


def is_content(request: Request) -> bool:
    """Whether a request is about a file's content."""
    return "/objects/" in request.path


def half_of_it(bucket: TestBucket) -> Fault:
    """Half of the body reaches the server, which was told of the whole; then all connections end."""

    def fault(request: Request, _: Forward) -> None:
        connection = HTTPConnection(urlsplit(bucket.client.meta.endpoint_url).netloc, timeout=30)
        connection.putrequest(request.method, request.path, skip_host=True)
        for name, value in request.headers.items():
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(request.body)))
        connection.endheaders(request.body[: len(request.body) // 2])
        connection.close()

    return fault


@contextmanager
def bucket_server() -> Iterator[str]:
    """A server that speaks S3, for as long as the context lasts; gives its address."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@contextmanager
def new_bucket(server: str, name: str) -> Iterator[TestBucket]:
    """A bucket behind a proxy of its own."""
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
    """A credentials file as the operator mounts one; AWS_SHARED_CREDENTIALS_FILE names it."""
    path = directory / "credentials"
    path.write_text(f"[default]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\n")
    return path
