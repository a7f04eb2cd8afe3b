"""Check that the files of Spark's executors are on the driver's file system.

The jobs `land` and `bootstrap` call it. Executors on other machines write to a path of their own disks, if the machines
do not share its file system, and Spark reports success. So the rows in the files that this process sees are compared
with those that the executors counted.
"""

from pathlib import Path

from pyarrow import parquet

from dedupe_crds.local_path import NotLocal, local_path
from dedupe_pipeline.errors import NotShared


def local_output(path: Path) -> Path:
    """Return the absolute path of an output, of a URL file:///… too.

    Spark's JVM resolves a relative path against the directory that it was started in, which need not be this one.

    Raises:
        NotShared: it is a URL of something else.
    """
    try:
        return local_path(path).absolute()
    except NotLocal as error:
        raise NotShared(str(error)) from error


def check_written(directory: Path, rows: int, output: Path) -> None:
    """Check that the files below `directory` have this number of rows.

    Raises:
        NotShared: they have not.
    """
    found = sum(parquet.read_metadata(file).num_rows for file in directory.glob("*=*/*.parquet"))
    if found != rows:
        raise NotShared(
            f"{output}: Spark's executors have written {rows:,} records, and the driver finds {found:,}. Each "
            "executor writes to its own disk: the output must be on a file system that all machines share. Nothing "
            "was published"
        )
