"""The checker shares no code with what it judges."""

import subprocess
import sys
from pathlib import Path
from pkgutil import iter_modules

import tests.support.checker

ROOT = Path(__file__).parents[3]
NOT_JUDGED = {"dedupe_crds"}
"""Of it the checker takes a manifest's topics, and time limits: it decides on no record."""


def packages() -> set[str]:
    """Return every package of the product."""
    found = {each.parent.name for each in ROOT.glob("*/dedupe_*/__init__.py")}
    assert {"dedupe_worker", "dedupe_router", "dedupe_growth", "dedupe_pipeline"} <= found
    return found


def test_the_checker_imports_no_code_that_it_judges() -> None:
    modules = [
        f"tests.support.checker.{module.name}"
        for module in iter_modules(tests.support.checker.__path__)
    ]
    assert len(modules) >= 5
    loaded = subprocess.run(
        [sys.executable, "-c", f"import sys, {', '.join(modules)}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert set(modules) <= set(loaded)
    found = {name.partition(".")[0] for name in loaded}
    assert found & packages() - NOT_JUDGED == set()
