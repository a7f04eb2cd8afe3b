"""Check that the files of Spark's executors are on the driver's file system.

The jobs `land` and `bootstrap` call it. Executors on other machines write to a path of their own disks, if the machines
do not share its file system, and Spark reports success. So the rows in the files that this process sees are compared
with those that the executors counted.
"""

import shutil
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from uuid import uuid4

from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_crds.local_path import NotLocal, local_path
from dedupe_pipeline.errors import NotShared
from dedupe_pipeline.runtime.hadoop_paths import path_of, spark_path
from dedupe_pipeline.runtime.portable import parallelism

_PROBES_A_CORE: Final = 4


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


def check_shared(spark: SparkSession, location: str) -> None:
    """Check that the driver finds the files that executors write to a directory.

    Every core writes one, which is removed. It concerns directories of a disk, as a path or as `file:///…`.

    Raises:
        NotShared: the driver does not find all files.
    """
    default = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS")  # noqa: SLF001 (Spark has no other access)
    scheme = urlsplit(location).scheme or urlsplit(default).scheme
    if scheme != "file" or str(spark.sparkContext.master).startswith("local"):
        return
    # Readers and VACUUM ignore names that begin with an underscore.
    probe = path_of(location) / "_dedupestream" / uuid4().hex
    tasks = _PROBES_A_CORE * parallelism(spark)
    numbers = spark.range(0, tasks, 1, tasks).withColumn("task", F.col("id"))
    try:
        numbers.write.partitionBy("task").parquet(spark_path(probe))
        check_written(probe, tasks, probe.parent.parent)
    finally:
        shutil.rmtree(probe.parent, ignore_errors=True)
