"""The command `dedupe-pipeline package`."""

from pathlib import Path

import click

from dedupe_pipeline.cli_options import FILE, errors_reported
from dedupe_pipeline.package import EXECUTOR_PACKAGES, build


@click.command("package")
@click.option(
    "--output", type=FILE, required=True, help="The archive to write, such as dedupestream.zip."
)
def package_command(*, output: Path) -> None:
    """Build the archive that Spark's executors need, for --py-files.

    On a cluster, executors import this project's packages from it.
    """
    with errors_reported():
        build(output)
    click.echo(
        f"{output}: pass it to spark-submit as --py-files, or as --conf spark.submit.pyFiles={output}"
    )
    click.echo(f"The executors' Python needs {', '.join(EXECUTOR_PACKAGES)}")
