"""Resolve the jars of Kafka and Spark from Maven Central, locked by checksums.

They are kept outside the tree, in ${DEDUPESTREAM_CACHE:-~/.cache/dedupestream}/jars. Invariant: `jars.json` lists the
SHA-256 of each jar of each set, and a jar that differs is refused. After a change of coordinates,
`python -m dedupe_pipeline.runtime.jars` writes that file again.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import distribution
from pathlib import Path
from xml.sax.saxutils import quoteattr

from rich.console import Console

from dedupe_pipeline.errors import JarsUnavailable
from dedupe_pipeline.runtime.java import find_java
from dedupe_pipeline.runtime.spark_versions import SUPPORTED, installed, installed_for_tables

KAFKA_BROKER = ("org.apache.kafka:kafka_2.13:4.3.1", "org.slf4j:slf4j-reload4j:1.7.36")
ICEBERG_AWS = ("org.apache.iceberg:iceberg-aws-bundle:1.12.0",)

_HERE = Path(__file__).parent
_SUMS = _HERE / "jars.json"
_JAVA_SPLITS = ":"
_SPARK_MISREADS = ":,#{[*?"
_DEADLINE_SECONDS = 900  # for all jars of a set over a slow connection


def kafka_broker() -> list[Path]:
    """Return the class path of a Kafka broker."""
    _check_path(_JAVA_SPLITS)
    return resolve("kafka-broker", KAFKA_BROKER)


def spark_kafka() -> list[Path]:
    """Return the jars of the Kafka connector of the installed Spark, for `spark.jars`."""
    spark = installed()
    _check_path(_SPARK_MISREADS)
    return resolve(f"spark-kafka-{spark.minor}", spark.connector, transitive=False)


def iceberg(*, s3: bool = False) -> list[Path]:
    """Return the jars of Iceberg for the installed Spark.

    `s3` adds that of its S3 client.

    Raises:
        JarsUnavailable: there are none for this version of Spark.
    """
    spark = installed_for_tables()
    _check_path(_SPARK_MISREADS)
    found = resolve(f"iceberg-{spark.minor}", spark.iceberg, transitive=False)
    return found + (resolve("iceberg-aws", ICEBERG_AWS, transitive=False) if s3 else [])


def delta() -> list[Path]:
    """Return the jars of Delta Lake for the installed Spark.

    Raises:
        JarsUnavailable: there are none for this version of Spark.
    """
    spark = installed_for_tables()
    _check_path(_SPARK_MISREADS)
    return resolve(f"delta-{spark.minor}", spark.delta, transitive=False)


def resolve(
    name: str, coordinates: Sequence[str], *, transitive: bool = True, locks: Path | None = None
) -> list[Path]:
    """Return the jars of Maven coordinates "group:artifact:version".

    They are downloaded once. `name` is the set's name in `locks`, by default `jars.json`. `transitive` adds their
    dependencies. Progress is printed to stderr. Two concurrent processes are safe: the second waits for the first.

    Raises:
        JarsUnavailable: the download failed, or a jar differs from its checksum.
        JavaMissing: the download needs a Java runtime.
    """
    locked = json.loads((locks or _SUMS).read_text()).get(name, {})
    with _cached(name, coordinates) as (target, fresh):
        if fresh is not None:
            _download(name, coordinates, fresh, transitive=transitive)
            _verify(name, fresh, locked)
    return sorted(target.glob("*.jar"))


def _check_path(misread: str) -> None:
    """Refuse a directory for downloads that Java or Spark would take for others."""
    path = str(cache_dir())
    found = [repr(each) for each in misread if each in path]
    if any("\ud800" <= each <= "\udfff" for each in path):
        found.append("bytes that are not UTF-8")
    if found:
        raise JarsUnavailable(
            f"jars can't be in the directory {path!r}: it has {', '.join(found)}, so Java or Spark would look for them "
            "elsewhere; name another directory in DEDUPESTREAM_CACHE"
        )


def cache_dir() -> Path:
    """Return the directory for downloads, which is outside the tree.

    Raises JarsUnavailable if it is not named, and the user has no home.
    """
    if named := os.environ.get("DEDUPESTREAM_CACHE"):
        return Path(named)
    with suppress(RuntimeError):
        if os.environ.get("HOME") != "":  # an empty one would be the root directory
            return Path.home() / ".cache" / "dedupestream"
    raise JarsUnavailable(
        "this user has no home directory for downloads: set HOME, or name a directory in DEDUPESTREAM_CACHE"
    )


@contextmanager
def _cached(name: str, coordinates: Sequence[str]) -> Iterator[tuple[Path, Path | None]]:
    """Yield the set's directory, and an empty one to fill if it does not exist.

    The filled directory gets its final name by one rename when the block succeeds; otherwise it is removed.
    """
    digest = hashlib.sha256("\n".join(coordinates).encode()).hexdigest()[:12]
    target = cache_dir() / "jars" / f"{name}-{digest}"
    if target.is_dir():
        yield target, None
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    # One lock for all sets, because they share Ivy's cache.
    with (target.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.is_dir():  # another process filled it while this one waited
            yield target, None
            return
        fresh = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
        try:
            yield target, fresh
            fresh.rename(target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def _download(name: str, coordinates: Sequence[str], into: Path, *, transitive: bool) -> None:
    module = into / "ivy.xml"
    module.write_text(_ivy_module(name, coordinates))
    command = [
        find_java(),
        f"-Ddedupestream.ivy.cache={cache_dir() / 'ivy'}",
        *("-jar", _ivy_jar()),
        *("-settings", _HERE / "ivysettings.xml"),
        *("-ivy", module),
        *("-confs", "default"),
        *("-retrieve", into / "[artifact]-[revision].[ext]"),
        *(() if transitive else ("-notransitive",)),
    ]
    with subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as ivy:
        deadline = threading.Timer(_DEADLINE_SECONDS, ivy.kill)
        deadline.start()
        try:
            output = _show_progress(name, ivy.stdout or ())
        finally:
            deadline.cancel()
    module.unlink()
    if ivy.returncode != 0:
        raise JarsUnavailable(_why_ivy_failed(name, ivy.returncode, output))


def _ivy_module(name: str, coordinates: Sequence[str]) -> str:
    dependencies = "".join(
        '<dependency org={} name={} rev={} conf="default"/>'.format(
            *map(quoteattr, coordinate.split(":"))
        )
        for coordinate in coordinates
    )
    return (
        f'<ivy-module version="2.0"><info organisation="dedupestream" module={quoteattr(name)}/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _ivy_jar() -> Path:
    """Return the Ivy jar in pyspark, without the slow import of pyspark."""
    for file in distribution("pyspark").files or ():
        if file.match("pyspark/jars/ivy-*.jar"):
            return Path(str(file.locate()))
    raise JarsUnavailable("This pyspark ships no Ivy jar; install the locked version of pyspark.")


def _show_progress(name: str, lines: Iterator[str] | Sequence[str]) -> list[str]:
    """Show the progress of Ivy, and return its output."""
    console = Console(stderr=True)
    console.print(f"Fetching the jars of {name} (once, into {cache_dir()}) …", highlight=False)
    output, found, downloaded = [], 0, 0
    with console.status("asking Maven Central") as status:
        for line in lines:
            output.append(line.rstrip())
            found += line.startswith("\tfound ")
            downloaded += line.startswith("\t[SUCCESSFUL ]")
            status.update(f"{found} jars found, {downloaded} downloaded")
    return output


def _why_ivy_failed(name: str, code: int, output: Sequence[str]) -> str:
    marks = ("not found", "FAILED", "UNRESOLVED", "error", "Exception")
    problems = [line.strip() for line in output if any(mark in line for mark in marks)][-5:]
    return (
        f"The jars of {name} could not be downloaded from Maven Central (Ivy exited with {code}): "
        f"{'; '.join(problems) or 'timeout'}. Check the network and try again; "
        "behind a proxy, put -Dhttps.proxyHost and -Dhttps.proxyPort into JAVA_TOOL_OPTIONS."
    )


def _verify(name: str, directory: Path, locked: Mapping[str, str]) -> None:
    found = sums(directory)
    if wrong := sorted({jar for jar, _ in found.items() ^ locked.items()}):
        raise JarsUnavailable(
            f"The jars of {name} are not the locked ones: {', '.join(wrong)} differ from "
            f"{_SUMS.name}. If their coordinates were changed on purpose, lock them with "
            "`python -m dedupe_pipeline.runtime.jars`; otherwise do not trust this network."
        )


def sums(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of each jar of a directory, by file name."""
    return {
        jar.name: hashlib.sha256(jar.read_bytes()).hexdigest()
        for jar in sorted(directory.glob("*.jar"))
    }


def _all_sets() -> Iterator[tuple[str, Sequence[str], bool]]:
    """Yield name and coordinates of each set, and if it has their dependencies."""
    yield "kafka-broker", KAFKA_BROKER, True
    for each in SUPPORTED.values():
        yield f"spark-kafka-{each.minor}", each.connector, False
        if each.iceberg:
            yield f"iceberg-{each.minor}", each.iceberg, False
        if each.delta:
            yield f"delta-{each.minor}", each.delta, False
    yield "iceberg-aws", ICEBERG_AWS, False


def _lock() -> None:
    """Resolve every set again and write its checksums."""
    locked = {}
    for name, coordinates, transitive in _all_sets():
        with tempfile.TemporaryDirectory() as directory:
            _download(name, coordinates, Path(directory), transitive=transitive)
            locked[name] = sums(Path(directory))
    _SUMS.write_text(json.dumps(locked, indent=2) + "\n")


if __name__ == "__main__":
    _lock()
