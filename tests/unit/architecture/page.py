"""docs/architecture.md, as its tests read it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs/architecture.md").read_text()

_LINK: Final = r"\[`([\w/]+)`\]\(\.\./([\w/.]+)\)"
_STEP: Final = re.compile(rf"^(\d+)\. {_LINK}: [A-Z`k].*[.]$")
_AGAIN: Final = re.compile(r"^- `([\w/]+)` → `([\w/]+)`: .*[.]$")


@dataclass(frozen=True)
class Walk:
    """One list: its modules in order, and (caller, module) of each module that is entered again."""

    modules: list[str]
    again: set[tuple[str, str]]


def module_of(name: str) -> str:
    """Return the module that the page calls by this short name.

    >>> module_of("worker/dedup/loop"), module_of("crds")
    ('dedupe_worker.dedup.loop', 'dedupe_crds')
    """
    return "dedupe_" + name.replace("/", ".")


def section(heading: str) -> str:
    """Return the text below a heading, up to the next heading of any level."""
    _, _, rest = PAGE.partition(f"{heading}\n")
    assert rest, f"the page has no heading {heading!r}"
    return re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0]


def walk(heading: str) -> Walk:
    """Return the walk below a heading. Each line must have the form of a step, and a sentence."""
    steps, again = [], set()
    for line in section(heading).splitlines():
        if line[:1].isdigit():
            match = _STEP.match(line)
            assert match, f"not a step: {line}"
            number, name, path = match.groups()
            steps.append(module_of(name))
            assert int(number) == len(steps), line
            assert path_of(module_of(name)) == path, line
        elif line.startswith("- "):
            match = _AGAIN.match(line)
            assert match, f"not a module that is entered again: {line}"
            again.add((module_of(match[1]), module_of(match[2])))
    return Walk(steps, again)


def path_of(module: str) -> str:
    """Return the file of a module, or the folder of a whole part, below the root."""
    package, *rest = module.split(".")
    part = package.removeprefix("dedupe_")
    if not rest:
        return part
    path = f"{part}/{package}/{'/'.join(rest)}"
    return f"{path}/__init__.py" if (ROOT / path).is_dir() else f"{path}.py"


def used_everywhere() -> list[str]:
    """Return the modules and parts that are in no list."""
    rows = re.findall(
        rf"^\| {_LINK} \| [^|]+[.)] \|$", section("## How to read a walk"), re.MULTILINE
    )
    assert rows
    return [module_of(name) for name, _ in rows]


def is_used_everywhere(module: str) -> bool:
    """Return whether a module is left out of the walks. A module that is a step of one never is."""
    return module not in STEPS and any(
        module == name or module.startswith(f"{name}.") for name in used_everywhere()
    )


HEADINGS: Final = {
    "record": "## A record from consume to commit",
    "stream": "## A DedupeStream from watch to StatefulSet",
    "snapshot": "### From the request to the bucket",
    "restore": "### From the bucket to a restored volume",
}
STEPS: Final = {module for heading in HEADINGS.values() for module in walk(heading).modules}
