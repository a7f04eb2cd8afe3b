"""A small checkout, written for a test."""

import re
from collections.abc import Mapping
from pathlib import Path

from tests.lint.checkout import Checkout

_BETWEEN = re.compile("(?<=[a-z])__(?=[a-z])")  # not those of __main__
_PROJECT = """
[tool.hatch.build.targets.wheel]
packages = ["kafka/dedupe_kafka", "worker/dedupe_worker"]
"""


def checkout(root: Path, files: Mapping[str, str]) -> Checkout:
    """Write files by their path, and return the checkout of them with two product packages."""
    folders = ("kafka/dedupe_kafka", "worker/dedupe_worker")
    empty = {f"{folder}/__init__.py": "" for folder in folders}
    for path, content in {"pyproject.toml": _PROJECT, **empty, **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    return Checkout(root)


def worker(**sources: str) -> dict[str, str]:
    """Return modules of the worker by name; `a__b` is b.py in the folder a."""
    return {
        f"worker/dedupe_worker/{_BETWEEN.sub('/', name)}.py": source
        for name, source in sources.items()
    }
