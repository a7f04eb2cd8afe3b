"""Create a Spark session that can read Kafka, for jobs and notebooks.

Invariant: the import of this module starts nothing.
"""

import logging
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from dedupe_pipeline.errors import RequestRefused
from dedupe_pipeline.runtime.jars import spark_kafka
from dedupe_pipeline.runtime.java import find_java
from dedupe_pipeline.table_target import TableTarget

_LOG_SETTINGS = Path(__file__).parent / "runtime" / "log4j2.properties"
_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # spark-submit sets it for the Python process that it starts
_ALWAYS = {
    # Plans and error messages show the options of a source, including logins.
    "spark.sql.redaction.options.regex": r"(?i)url|secret|pass|token|jaas|sasl|\.key|keystore",
    "spark.sql.session.timeZone": "UTC",
}
_LOCAL = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
_DEFAULTS = {
    # Garbage collection pauses do not matter to a batch job.
    "spark.driver.defaultJavaOptions": "-XX:+UseParallelGC",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
    # Upper bound: adaptive execution coalesces small partitions.
    "spark.sql.shuffle.partitions": "16",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def spark_session(
    app_name: str,
    *,
    master: str | None = None,
    properties: Mapping[str, str] | None = None,
    jars: Callable[[], list[Path]] = spark_kafka,
) -> SparkSession:
    """Start Spark, or return the session that already runs in this process.

    `properties` are Spark's own (`spark.driver.memory`, …) and take precedence over the defaults here; with
    `spark.jars` among them no `jars` are resolved. The first call on a machine downloads 10 MB. A process started by
    spark-submit gets its master, jars and properties from there; otherwise `master` is `local[*]` by default.

    Raises:
        RequestRefused: the master is a server of Spark Connect.
        JavaMissing: there is no Java runtime for Spark.
        JarsUnavailable: the Kafka connector could not be downloaded.
    """
    if (master or os.environ.get("SPARK_REMOTE") or "").startswith("sc://"):
        raise RequestRefused(
            "this makes no session of Spark Connect; use SparkSession.builder.remote(…), and pass that session to "
            "read_clean or audit"
        )
    find_java()  # names the missing Java; Spark would only report that its JVM exited
    settings = {**_ALWAYS, **(properties or {})}
    if _SUBMITTED not in os.environ:
        master = master or "local[*]"
        settings = {**_DEFAULTS, **(_LOCAL if master.startswith("local") else {}), **settings}
        if "spark.jars" not in settings:
            settings["spark.jars"] = ",".join(str(jar) for jar in jars())
        _choose_python(master, settings)
    # The warning is about pandas; records pass between Spark and Python as Arrow only.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # py4j raises what it would log
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    context = session.sparkContext
    if str(context.master).startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable  # for a process that spark-submit started
    return session


def session_for(
    app_name: str,
    table: TableTarget | None,
    *,
    master: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark with what a table needs, if there is one."""
    given = properties or {}
    if table is None:
        return spark_session(app_name, master=master, properties=given)
    return spark_session(
        app_name,
        master=master,
        properties=table.properties(given),
        jars=lambda: [*spark_kafka(), *table.jars(given)],
    )


def _choose_python(master: str, settings: Mapping[str, str]) -> None:
    """Choose the Python of the tasks, before Spark's JVM starts.

    By default it is the python3 on PATH. Here that may lack the packages of the jobs, so local tasks run with this
    interpreter; executors elsewhere have another.
    """
    if python := settings.get("spark.pyspark.python"):  # only spark-submit looks at it
        os.environ["PYSPARK_PYTHON"] = python
    elif master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
