"""The checker shares no code with what it judges."""

import subprocess
import sys
from pkgutil import iter_modules

import tests.support.checker

JUDGED = ("dedupe_worker", "dedupe_ids", "dedupe_filters", "dedupe_local")


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
    assert [name for name in loaded if name.partition(".")[0] in JUDGED] == []
