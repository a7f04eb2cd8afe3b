"""A Spark session that can read Kafka, for the jobs and for notebooks. None is made at import."""

import logging
import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from dedupe_pipeline.runtime.jars import spark_kafka
from dedupe_pipeline.runtime.java import find_java

_LOG_SETTINGS = Path(__file__).parent / "runtime" / "log4j2.properties"
_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # what spark-submit leaves to the Python that it starts
_ALWAYS = {
    # Options of a source show in plans and error messages, logins among them.
    "spark.sql.redaction.options.regex": r"(?i)url|secret|password|token|jaas|\.key|keystore",
    "spark.sql.session.timeZone": "UTC",
}
_LOCAL = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
_DEFAULTS = {
    # Pauses do no harm to a batch job.
    "spark.driver.defaultJavaOptions": "-XX:+UseParallelGC",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
    # Upper bound: adaptive execution joins the small ones.
    "spark.sql.shuffle.partitions": "16",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def spark_session(
    app_name: str,
    *,
    master: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark, or return the session that already runs in this process.

    `properties` are Spark's own (`spark.driver.memory`, …) and win over what is set here; with
    `spark.jars` among them no jars are resolved. The first call on a machine downloads 10 MB. What
    spark-submit has started has its master, jars and properties from there. Else `master` is
    `local[*]` by default.

    Raises:
        JavaMissing: no Java that Spark runs on.
        JarsUnavailable: the Kafka connector could not be had.
    """
    find_java()  # says what is missing, where Spark would only say that its JVM has ended
    settings = {**_ALWAYS, **(properties or {})}
    if _SUBMITTED not in os.environ:
        master = master or "local[*]"
        settings = {**_DEFAULTS, **(_LOCAL if master.startswith("local") else {}), **settings}
        if "spark.jars" not in settings:
            settings["spark.jars"] = ",".join(str(jar) for jar in spark_kafka())
    # Without it Spark takes whatever python3 is on PATH, which may lack what the jobs import.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Its advice is about pandas' behaviour; records pass between Spark and Python as Arrow only.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # what it would log is raised as well
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
