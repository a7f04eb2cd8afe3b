"""The mutants, and which seed has killed each.

mutants.toml    the mutants: a name, what it breaks, and edits of a file, `old` to `new`
killed.toml     for each mutant the seed that found it and the kind of defect; written by the hunt
"""

import shutil
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from tests.simulation.outcome import Kind

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[2]
MUTANTS: Final = HERE / "mutants.toml"
KILLED: Final = HERE / "killed.toml"

PACKAGES: Final = ("crds", "kafka", "ids", "filters", "growth", "worker", "httpd", "router")
"""The packages that worker and router run from: the ones that are copied for a mutant."""


class MutantDoesNotApply(Exception):
    """A mutant's text is not in its file, or not once."""


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Edit(_Entry):
    """Replace `old`, which occurs once in the file, by `new`."""

    file: str
    old: str
    new: str


class Mutant(_Entry):
    """A defect to be found. `breaks` names the mend or the invariant.

    Only schedules with these settings, and with one of these faults, can show it: the hunt skips the others, but
    counts them. `routed`: schedules with routers; `changes`: those of streams that get them.
    """

    name: str
    breaks: str
    routed: bool = False
    changes: bool = False
    settings: dict[str, bool] = Field(default_factory=dict)
    faults: list[str] = Field(default_factory=list)
    edit: list[Edit] = Field(min_length=1)

    @property
    def kind(self) -> Kind:
        """Return the kind of schedules."""
        return Kind.CHANGE if self.changes else Kind.ROUTERS if self.routed else Kind.DIRECT


class Killing(_Entry):
    """How a mutant was found: on which seed, and as which kinds of defect."""

    seed: int
    kinds: list[str]


def load_mutants(path: Path = MUTANTS) -> dict[str, Mutant]:
    """Return the mutants by name. Raises ValueError if two have one name."""
    found = [Mutant.model_validate(each) for each in tomllib.loads(path.read_text())["mutant"]]
    mutants = {each.name: each for each in found}
    if len(mutants) < len(found):
        raise ValueError(f"{path}: two mutants have the same name")
    return mutants


def load_killings(path: Path = KILLED) -> dict[str, Killing]:
    """Return how each mutant was found, by name."""
    if not path.exists():
        return {}
    return {
        name: Killing.model_validate(each) for name, each in tomllib.loads(path.read_text()).items()
    }


def save_killings(killings: Mapping[str, Killing], path: Path = KILLED) -> None:
    """Write how the mutants were found, sorted by name."""
    text = "".join(
        f"[{name}]\nseed = {each.seed}\nkinds = {sorted(each.kinds)!r}\n\n".replace("'", '"')
        for name, each in sorted(killings.items())
    )
    path.write_text(f"# Written by `python -m tests.simulation.mutants`.\n\n{text.rstrip()}\n")


def copy_packages(target: Path, root: Path = ROOT) -> None:
    """Copy the packages that worker and router run from."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "tests")
        shutil.copytree(root / package, target / package, ignore=ignored)


def apply_mutant(mutant: Mutant, target: Path) -> None:
    """Edit a copy of the packages. Raises MutantDoesNotApply."""
    for edit in mutant.edit:
        path = target / edit.file
        text = path.read_text() if path.exists() else ""
        found = text.count(edit.old)
        if found != 1:
            raise MutantDoesNotApply(
                f"{mutant.name}: its text occurs {found} times in {edit.file}, not once; "
                "adapt it to the code as it is now"
            )
        path.write_text(text.replace(edit.old, edit.new))


def package_paths(target: Path) -> list[str]:
    """Return the directories of the packages of a copy, for `sys.path`."""
    return [str(target / package) for package in PACKAGES]


def chosen(mutants: Mapping[str, Mutant], names: Iterable[str]) -> list[Mutant]:
    """Return the mutants of these names, or all. Raises KeyError with an unknown name."""
    wanted = list(names) or list(mutants)
    return [mutants[name] for name in wanted]
