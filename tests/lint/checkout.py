"""The Python modules of a checkout: found and parsed here once, for the checks and for the figures.

The product packages are those that pyproject.toml puts into the wheel, so an older checkout with another layout can be
read as well.
"""

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple


class Finding(NamedTuple):
    """One violation. `group` is the package or the top folder that it belongs to."""

    group: str
    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        """Return it in the form that editors and terminals turn into a link."""
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True)
class Module:
    """A Python file. `name` is its import name; an `__init__.py` has the name of its package."""

    name: str
    group: str
    path: Path
    source: str

    @cached_property
    def tree(self) -> ast.Module:
        """Parse the source once."""
        return ast.parse(self.source, str(self.path))

    @property
    def lines(self) -> int:
        """Count the lines of the file."""
        return len(self.source.splitlines())

    def finding(self, line: int, message: str) -> Finding:
        """Return a violation in this file."""
        return Finding(self.group, self.path, line, message)


class Checkout:
    """A working tree of the project, this one or another commit's."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def packages(self) -> list[Path]:
        """Return the folders of the product packages, relative to the root."""
        project = tomllib.loads((self.root / "pyproject.toml").read_text())
        wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
        return [Path(package) for package in wheel["packages"]]

    @cached_property
    def product(self) -> list[Module]:
        """Return the modules of the product packages."""
        return [module for package in self.packages for module in self._read(package, package.name)]

    def others(self, *folders: str) -> list[Module]:
        """Return the modules below folders that are no product; a missing folder has none."""
        return [module for folder in folders for module in self._read(Path(folder), folder)]

    def _read(self, folder: Path, group: str) -> Iterator[Module]:
        for path in sorted((self.root / folder).rglob("*.py")):
            inside = path.relative_to(self.root / folder).with_suffix("").parts
            name = ".".join([folder.name, *inside]).removesuffix(".__init__")
            yield Module(name, group, path.relative_to(self.root), path.read_text())
