"""Generate the CustomResourceDefinitions, the chart's copies and the reference.

`python -m dedupe_crds.generate` writes them into the source tree; with `--check` it only compares,
prints what differs, and exits with 1 if anything does.
"""

import difflib
import sys
from pathlib import Path
from typing import Any

import click
import yaml

from dedupe_crds.openapi import CUSTOM_RESOURCES
from dedupe_crds.reference import reference_pages
from dedupe_crds.spec.stream import GROUP

ROOT = Path(__file__).parents[2]
HEADER = "generated from crds/dedupe_crds by `make generate`, do not edit"


def generated_files() -> dict[str, str]:
    """Return the text of each generated file by its path in the source tree."""
    files = {"docs/reference.md": f"<!-- {HEADER} -->\n{reference_pages(CUSTOM_RESOURCES)}"}
    for resource in CUSTOM_RESOURCES:
        definition = resource.definition()
        name = f"{resource.plural}.{GROUP}.yaml"
        files[f"crds/{name}"] = f"# {HEADER}\n{_yaml(definition)}"
        # The chart adds the metadata, with the labels and annotations of its release.
        chart_part = {"spec": definition["spec"]}
        files[f"charts/dedupestream/files/crds/{name}"] = f"# {HEADER}\n{_yaml(chart_part)}"
    return files


def _yaml(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, width=100, allow_unicode=True)


def differences(root: Path) -> list[str]:
    """Return the unified diff from the files under `root` to the generated ones."""
    diff: list[str] = []
    for name, text in generated_files().items():
        path = root / name
        current = path.read_text(encoding="utf-8") if path.exists() else ""
        diff += difflib.unified_diff(
            current.splitlines(), text.splitlines(), name, f"{name} (generated)", lineterm=""
        )
    return diff


@click.command()
@click.option("--check", is_flag=True, help="Compare only; exit with 1 if a file differs.")
def main(*, check: bool) -> None:
    """Write the generated files, or check that they are current."""
    if check:
        if diff := differences(ROOT):
            click.echo("\n".join(diff))
            click.echo("Generated files are out of date: run `make generate`.", err=True)
            sys.exit(1)
        return
    for name, text in generated_files().items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        click.echo(f"wrote {name}")


if __name__ == "__main__":
    main()
