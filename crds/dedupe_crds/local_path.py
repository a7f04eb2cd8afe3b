"""Paths of this machine, for options of commands and for functions that take them.

A URL is no path: as one, `s3a://lake/orders` would be a directory named `s3a:` here. `file:` is honoured, and each
other scheme refused, hdfs: too: only Spark could read it, and these files are of this process.

It stands in the lowest package because all parts have commands.
"""

import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import click

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(?:/([^/]*))?")


class NotLocal(ValueError):
    """A URL that names no file of this machine."""


def local_path(path: str | Path) -> Path:
    """Return a path, of a URL file:///… too.

    >>> local_path("data/orders"), local_path("file:///data/my%20orders")
    (PosixPath('data/orders'), PosixPath('/data/my orders'))

    Raises:
        NotLocal: it is a URL with another scheme or of another host.
    """
    text = str(path)
    url = _URL.match(text)
    if url is None:
        return Path(path)
    scheme, host = url.groups()
    if scheme.lower() != "file":
        raise NotLocal(
            f"{text} is not on a file system of this machine: {scheme}: is not supported. Name a path on a mounted "
            "file system, and copy from or to the storage with its own tools"
        )
    if host not in {None, "", "localhost"}:
        raise NotLocal(f"{text} is on host {host}: write file:///PATH for a file of this machine")
    rest = text[url.end(2) :] if host is not None else text[len("file:") :]
    return Path(unquote(rest))


class LocalPath(click.Path):
    """The type of all options that take a path."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 (those of click.Path)
        super().__init__(path_type=Path, **options)

    def convert(
        self,
        value: Any,  # noqa: ANN401 (as in click.Path)
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401 (as in click.Path)
        """Return the path of a value."""
        try:
            found = local_path(value)
        except NotLocal as error:
            self.fail(str(error), param, ctx)
        return super().convert(found, param, ctx)
