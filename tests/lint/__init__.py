"""Checks of this repository that Ruff, mypy and import-linter do not make: `python -m tests.lint`."""
