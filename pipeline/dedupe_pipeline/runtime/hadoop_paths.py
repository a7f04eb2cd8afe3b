"""Paths of this machine as Spark reads them, by Hadoop.

Hadoop does not decode URLs: what `Path.as_uri` makes of a space stays `%20` there. So neither function does.
"""

import re
from pathlib import Path
from typing import Final

_FILE_URL: Final = re.compile("file:(?://[^/]*)?(?=/)")


def spark_path(path: Path) -> str:
    """Return a path of this machine for Spark's readers and writers.

    Without a scheme, Spark takes it as a path of Hadoop's default file system, on many clusters HDFS.

    >>> spark_path(Path("/data/my orders"))
    'file:///data/my orders'
    """
    return f"file://{path.absolute()}"


def path_of(location: str) -> Path:
    """Return the path that Spark means by a path or by a URL `file:…`.

    >>> path_of("file:/data/my orders"), path_of("file:///data/50%20#1")
    (PosixPath('/data/my orders'), PosixPath('/data/50%20#1'))
    """
    return Path(_FILE_URL.sub("", location, count=1)).absolute()
