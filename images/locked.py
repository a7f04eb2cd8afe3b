"""Print the part of requirements.lock that an extra or a dependency group of pyproject.toml needs.

The lock has all packages with their hashes, also the development tools. An image gets only the packages of its
extra, in the locked versions; the group `build` builds it. No index is needed: for each package, uv lists in the
lock which packages require it ("# via"). The Dockerfile runs `locked.py DIRECTORY NAME`; it needs only the
standard library.
"""

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Not "-c FILE": a constraint requires nothing.
_VIA = re.compile(r"^ +# +(?:via +)?(?!via$)([A-Za-z0-9][A-Za-z0-9._-]*)")


class Locked(NamedTuple):
    """A package of the lock: its lines, and the packages that require it.

    A package with several versions, each for some versions of Python, has the lines of all.
    """

    text: str
    required_by: frozenset[str]


def requirements(directory: Path, name: str) -> str:
    """Return the requirements of an extra or a group, for `pip install --require-hashes --no-deps`.

    Raises:
        LookupError: there is neither, or the lock lacks a package of it.
    """
    return "".join(package.text for package in packages(directory, name).values())


def packages(directory: Path, name: str) -> dict[str, Locked]:
    """Return the locked packages of an extra or a group, in the order of their names."""
    pyproject = tomllib.loads((directory / "pyproject.toml").read_text())
    locked = parse((directory / "requirements.lock").read_text())
    return {each: locked[each] for each in sorted(closure(direct(pyproject, name), locked))}


def direct(pyproject: dict[str, Any], name: str) -> set[str]:
    """Return the packages that a group lists, or an extra and the project itself.

    >>> project = {"dependencies": ["click>=8.1"], "optional-dependencies": {"a": ["Py_YAML>=6"]}}
    >>> sorted(direct({"project": project}, "a"))
    ['click', 'py-yaml']
    >>> direct({"project": project, "dependency-groups": {"build": ["hatchling"]}}, "build")
    {'hatchling'}
    """
    project, groups = pyproject["project"], pyproject.get("dependency-groups", {})
    extras = project["optional-dependencies"]
    if name in groups:
        listed = groups[name]
    elif name in extras:
        listed = [*project["dependencies"], *extras[name]]
    else:
        raise LookupError(f"pyproject.toml has no extra {name}; it has: {', '.join(extras)}")
    return {_normalized(requirement) for requirement in listed}


def closure(names: Iterable[str], locked: dict[str, Locked]) -> set[str]:
    """Return the packages, and all packages that they require, directly or indirectly."""
    needed = set(names)
    if unknown := needed - locked.keys():
        raise LookupError(f"requirements.lock lacks {', '.join(sorted(unknown))}: run make lock")
    while True:
        more = {name for name, package in locked.items() if package.required_by & needed} - needed
        if not more:
            return needed
        needed |= more


def parse(lock: str) -> dict[str, Locked]:
    """Return the packages of a lock by name.

    >>> lock = "a==1 --hash=sha256:1\\n    # via\\n    #   -c f\\n    #   b\\n    #   c\\nb==2\\n    # via c\\n"
    >>> {name: sorted(package.required_by) for name, package in parse(lock).items()}
    {'a': ['b', 'c'], 'b': ['c']}
    """
    packages: dict[str, Locked] = {}
    for block in re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE):
        if not block.strip() or block.startswith("#"):
            continue
        lines = block.splitlines()
        required_by = {_normalized(found[1]) for line in lines if (found := _VIA.match(line))}
        text = "".join(f"{line}\n" for line in lines if not line.lstrip().startswith("#"))
        name = _normalized(block)
        known = packages.get(name, Locked("", frozenset()))
        packages[name] = Locked(known.text + text, known.required_by | required_by)
    return packages


def _normalized(requirement: str) -> str:
    found = _NAME.match(requirement)
    if found is None:
        raise LookupError(f"{requirement!r} has no package name")
    return re.sub(r"[-_.]+", "-", found[0]).lower()


if __name__ == "__main__":
    sys.stdout.write(requirements(Path(sys.argv[1]), sys.argv[2]))
