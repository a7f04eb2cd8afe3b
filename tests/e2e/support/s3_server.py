"""A bucket that pods reach: moto's server, on this machine's address in the cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Self

import boto3
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

from tests.e2e.support.kubectl import Kubectl
from tests.support.patience import HANG_SECONDS

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment
    from mypy_boto3_s3 import S3Client

BUCKET = "snapshots"
SECRET = "bucket"  # noqa: S105 # its name
_REGION = "us-east-1"
_KEY = "test"
_CREDENTIALS = f"[default]\naws_access_key_id = {_KEY}\naws_secret_access_key = {_KEY}\n"


class S3Server:
    """Serves S3 while its block lasts, with an empty bucket BUCKET. What it holds is in this process."""

    def __init__(self, host: str) -> None:
        self._gate = _Gate()
        self._server = make_server(host, 0, self._gate, threaded=True, request_handler=_Quiet)
        self._thread = Thread(target=self._server.serve_forever, name="S3", daemon=True)
        self.endpoint = f"http://{host}:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self.client().create_bucket(Bucket=BUCKET)
        return self

    def __exit__(self, *_: object) -> None:
        self._gate.open()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def client(self) -> "S3Client":
        """A client with all rights."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=_REGION,
            aws_access_key_id=_KEY,
            aws_secret_access_key=_KEY,
        )

    def objects(self, prefix: str = "") -> list[str]:
        """The names of the objects in the bucket below a prefix."""
        pages = self.client().get_paginator("list_objects_v2")
        found = pages.paginate(Bucket=BUCKET, Prefix=prefix)
        return [one["Key"] for page in found for one in page.get("Contents", [])]

    def delete(self, *keys: str) -> None:
        """Delete objects behind everyone's back."""
        for key in keys:
            self.client().delete_object(Bucket=BUCKET, Key=key)

    def write_credentials(self, kubectl: Kubectl) -> None:
        """Make the Secret SECRET that `spec` names, in kubectl's namespace."""
        kubectl.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": SECRET},
                "stringData": {"credentials": _CREDENTIALS},
            }
        )

    def spec(self, **more: object) -> dict[str, Any]:
        """`spec.snapshots.s3` for the bucket; `more` are fields beside."""
        return {
            "bucket": BUCKET,
            "region": _REGION,
            "endpoint": self.endpoint,
            "credentialsSecretRef": {"name": SECRET},
            **more,
        }

    @contextmanager
    def held(self, method: str, part: str) -> Iterator[Event]:
        """Keep requests waiting whose path has `part` in it; the event is set once one does.

        The end of the block lets them go on, or `release` before it.
        """
        try:
            yield self._gate.close(method, part)
        finally:
            self.release()

    def release(self) -> None:
        """Let the requests that wait go on, and all that follow."""
        self._gate.open()


class _Quiet(MotoRequestHandler):
    """Does not log each request."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""


class _Gate:
    """moto's application behind a gate that can be closed to some requests."""

    def __init__(self) -> None:
        self._application = DomainDispatcherApplication(create_backend_app)
        self._lock = Lock()
        self._held: tuple[str, str] | None = None
        self._waiting, self._opened = Event(), Event()

    def close(self, method: str, part: str) -> Event:
        with self._lock:
            self._held = (method, part)
            self._waiting, self._opened = Event(), Event()
            return self._waiting

    def open(self) -> None:
        with self._lock:
            self._held = None
            self._opened.set()

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Any:  # noqa: ANN401 # moto's answer
        with self._lock:
            waiting, opened = self._waiting, self._opened
            method, part = self._held or ("", "")
        if method == environ["REQUEST_METHOD"] and part in environ["PATH_INFO"]:
            waiting.set()
            opened.wait(HANG_SECONDS)
        return self._application(environ, start_response)
