"""Find a Java runtime that both Kafka and Spark run on."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from dedupe_pipeline.errors import JavaMissing

MINIMUM_VERSION = 17


@cache
def find_java() -> Path:
    """Return the `java` of JAVA_HOME, or that on PATH.

    Raises:
        JavaMissing: there is none, it does not start, or it is older than Java 17.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    where = f"in JAVA_HOME ({home})" if home else "on PATH"
    if found is None:
        raise JavaMissing(
            f"No java {where}; install Java {MINIMUM_VERSION} or newer, or set JAVA_HOME to one."
        )
    run = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    version = parse_version(run.stderr)
    if version is None or version < MINIMUM_VERSION:
        is_what = f"is Java {version}" if version else "does not print its version"
        raise JavaMissing(
            f"{found} {is_what}; Kafka and Spark need Java {MINIMUM_VERSION} or newer: "
            "install it, or set JAVA_HOME to one."
        )
    return Path(found)


def parse_version(banner: str) -> int | None:
    """Read the major version from what `java -version` prints.

    >>> parse_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> parse_version('java version "1.8.0_202"')
    8
    """
    match = re.search(r'version "(?:1\.)?(\d+)', banner)
    return int(match[1]) if match else None
