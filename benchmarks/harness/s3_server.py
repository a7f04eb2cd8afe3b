"""S3 server that is no slower than its disk: versitygw.

It is built once from Go's module proxy. A bucket is a directory of it, an object a file. Snapshots are measured
with it; tests prove their correctness, with servers that can be made to fail.
"""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import boto3
import httpx

from benchmarks.harness.processes import BenchmarkFailed
from dedupe_local.run import child_process as tether
from dedupe_local.servers.kafka import HOST, free_ports
from dedupe_pipeline.runtime.jars import cache_dir

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

VERSION: Final = "v1.8.0"
BUCKET: Final = "snapshots"

_MODULE: Final = f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"
_KEY: Final = "bench"  # opens nothing else
_REGION: Final = "us-east-1"
_BUILD_SECONDS: Final = 900.0
_START_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.05


class S3Server:
    """A server with an empty bucket BUCKET; it runs while its block lasts.

    Its data is below `directory`. `host` is the address of this machine that it listens on.
    """

    environment: Final = {"AWS_ACCESS_KEY_ID": _KEY, "AWS_SECRET_ACCESS_KEY": _KEY}
    """Variables that give a process access to the bucket."""

    credentials: Final = f"[default]\naws_access_key_id = {_KEY}\naws_secret_access_key = {_KEY}\n"
    """The same as a file."""

    def __init__(self, directory: Path, host: str = HOST) -> None:
        self._directory = directory
        [port] = free_ports(1, host)
        self._address = f"{host}:{port}"
        self.endpoint = f"http://{self._address}"

    def __enter__(self) -> Self:
        program = _program()
        objects = self._directory / "objects"
        objects.mkdir(parents=True)
        with (self._directory / "s3.log").open("wb") as log:
            self._process = tether.spawn(
                [program, "--quiet", "--port", self._address, "posix", objects],
                output=log,
                env={**os.environ, "ROOT_ACCESS_KEY": _KEY, "ROOT_SECRET_KEY": _KEY},
            )
        try:
            self._wait_until_it_answers()
            self.client().create_bucket(Bucket=BUCKET)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        tether.stop([self._process], deadline_seconds=_STOP_SECONDS)

    def client(self) -> "S3Client":
        """Return a client with all rights."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=_REGION,
            aws_access_key_id=_KEY,
            aws_secret_access_key=_KEY,
        )

    def snapshots(self, **s3: object) -> dict[str, Any]:
        """Return `spec.snapshots` of a stream that uploads here, at any speed.

        `s3` are more fields of it.
        """
        bucket = {"bucket": BUCKET, "region": _REGION, "endpoint": self.endpoint}
        return {"provider": "S3", "s3": {**bucket, "bandwidth": "100Gi", **s3}}

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                httpx.get(self.endpoint)  # any answer will do: without a key it is a refusal
            except httpx.TransportError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    log = (self._directory / "s3.log").read_text()
                    raise BenchmarkFailed(f"versitygw does not answer:\n{log}") from error
                time.sleep(_POLL_SECONDS)
            else:
                return


def _program() -> Path:
    """Return the program, built if it does not exist yet. Raises BenchmarkFailed."""
    program = cache_dir() / "tools" / f"versitygw-{VERSION}" / "versitygw"
    if program.exists():
        return program
    if shutil.which("go") is None:
        raise BenchmarkFailed("Go is needed to build versitygw, a server of buckets: install it")
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as fresh:
        settings = {"CGO_ENABLED": "0", "GOFLAGS": "-trimpath -buildvcs=false", "GOBIN": fresh}
        built = subprocess.run(
            ["go", "install", _MODULE],  # noqa: S607 # whichever go is on the PATH
            check=False,
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS,
            env={**os.environ, **settings},
        )
        if built.returncode != 0:
            raise BenchmarkFailed(f"versitygw was not built:\n{built.stderr[-2000:]}")
        (Path(fresh) / "versitygw").rename(program)
    return program
