"""A standalone Spark cluster of separate processes: a master and two workers, as on other machines.

Each worker has a mount and a PID namespace of its own. In it `/tmp` is the worker's own, the checkout is hidden, and
`python3` is an environment with `EXECUTOR_PACKAGES` only, so no executor can import this project's packages. The one
directory that driver and workers share is `SparkCluster.shared`. All addresses are of the loopback interface, another
for each worker.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import pytest

from dedupe_local.run.child_process import spawn
from dedupe_pipeline.package import EXECUTOR_PACKAGES
from dedupe_pipeline.runtime.java import find_java
from images.locked import parse
from tests.support.patience import wait_for

REPOSITORY: Final = Path(__file__).parents[3]
BIN: Final = Path(sys.executable).parent
WORKERS: Final = 2
SMALL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}
_START_SECONDS: Final = 120.0
_END_SECONDS: Final = 60.0
# /mnt keeps what is needed of the places that are hidden next.
_WORKER: Final = """
set -eu
mount -t tmpfs none /mnt
mkdir /mnt/spark /mnt/python /mnt/own /mnt/shared
mount --bind "$SPARK" /mnt/spark
mount --bind "$ENVIRONMENT" /mnt/python
mount --bind "$OWN" /mnt/own
mount --bind "$SHARED" /mnt/shared
mount --bind /mnt/own/tmp /tmp
[ ! -d "$CHECKOUT" ] || mount -t tmpfs none "$CHECKOUT"
mkdir -p "$SHARED"
mount --bind /mnt/shared "$SHARED"
cd /mnt/own
export SPARK_HOME=/mnt/spark PATH="/mnt/python/bin:$PATH" HOME=/mnt/own
exec /mnt/spark/bin/spark-class org.apache.spark.deploy.worker.Worker --host "$SPARK_LOCAL_IP" \
  --port 0 --webui-port 0 --cores 1 --memory 512m --work-dir /mnt/own/work "$MASTER"
"""


@dataclass(frozen=True, kw_only=True)
class SparkCluster:
    """A running cluster: `python` is the executors' environment, as this process sees it."""

    master: str
    shared: Path
    python: Path
    spark_home: Path


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """Run one cluster for the session."""
    with running_cluster(tmp_path_factory.mktemp("spark-cluster")) as running:
        yield running


@contextmanager
def running_cluster(directory: Path) -> Iterator[SparkCluster]:
    """Run a cluster with its files in a directory; all its processes end with the block.

    They end with this process too, even if it is killed.
    """
    if os.geteuid() != 0:
        pytest.fail("Spark's workers get mount namespaces of their own: run this test as root")
    environment, shared = directory / "environment", directory / "shared"
    shared.mkdir()
    _make_environment(environment)
    with ExitStack() as stack:
        master = _start_master(stack, directory)
        for number in range(WORKERS):
            _start_worker(stack, directory, number, master)
        log = directory / "master.log"
        wait_for(
            lambda: log.read_text().count("Registering worker") == WORKERS,
            "all workers have registered",
            deadline_seconds=_START_SECONDS,
            explain=lambda: "\n".join(each.read_text() for each in directory.glob("*.log")),
        )
        python = environment / "bin/python3"
        yield SparkCluster(master=master, shared=shared, python=python, spark_home=_spark_home())


def _make_environment(directory: Path) -> None:
    """Install what executors need, in the locked versions, and nothing of this project."""
    locked = parse((REPOSITORY / "requirements.lock").read_text())
    requirements = directory.with_suffix(".txt")
    requirements.write_text("".join(locked[name].text for name in EXECUTOR_PACKAGES))
    install = ("pip", "install", "--quiet", "--no-deps", "--require-hashes", "--python", directory)
    for arguments in (
        ("venv", "--quiet", "--python", sys.executable, directory),
        (*install, "-r", requirements),
    ):
        subprocess.run([BIN / "uv", *arguments], check=True, cwd=directory.parent)


def _start_master(stack: ExitStack, directory: Path) -> str:
    """Return the address of a new master."""
    command = ("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1")
    ports = ("--port", "0", "--webui-port", "0")
    log = directory / "master.log"
    spark_class = _spark_home() / "bin/spark-class"
    _start(stack, [spark_class, *command, *ports], log, {"SPARK_HOME": str(_spark_home())})
    found = wait_for(
        lambda: re.search(r"Starting Spark master at (spark://\S+)", log.read_text()),
        "the master has an address",
        deadline_seconds=_START_SECONDS,
        explain=log.read_text,
    )
    return found[1]


def _start_worker(stack: ExitStack, directory: Path, number: int, master: str) -> None:
    own = directory / f"worker-{number}"
    (own / "tmp").mkdir(parents=True)
    unshare = "unshare --mount --pid --fork --kill-child --mount-proc --propagation private"
    settings = {
        "SPARK": _spark_home(),
        "ENVIRONMENT": directory / "environment",
        "OWN": own,
        "SHARED": directory / "shared",
        "CHECKOUT": REPOSITORY,
        "MASTER": master,
        # On one host, executors would read each other's shuffle files from the disk.
        "SPARK_LOCAL_IP": f"127.0.0.{2 + number}",
    }
    _start(
        stack,
        [*unshare.split(), "bash", "-c", _WORKER],
        directory / f"worker-{number}.log",
        {name: str(value) for name, value in settings.items()},
    )


def _start(stack: ExitStack, command: list[str | Path], log: Path, env: dict[str, str]) -> None:
    """Start a process with a small environment of its own, and kill it with the stack."""
    own = {
        "PATH": f"{find_java().parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with log.open("wb") as output:
        process = spawn(command, output=output, env={**own, **env})
    stack.callback(process.wait, _END_SECONDS)
    # The PID namespace of a worker ends with its first process, which ends with `unshare`.
    stack.callback(process.kill)


def _spark_home() -> Path:
    return Path(str(distribution("pyspark").locate_file("pyspark")))
