"""Read and check a stream's topics from Python, with and without Spark.

    import dedupestream as ds

    with ds.Reader("localhost:9092", "orders-clean", values=None) as reader:
        records = sum(1 for record in reader)

    stream = ds.load_manifest(Path("stream.yaml"))
    spark = ds.spark_session("orders")
    orders = ds.read_clean(spark, stream)
    result = ds.audit(spark, stream)
    landed = ds.land(spark, stream, Path("lake/orders"))

Every name is imported at its first use: `Reader` needs neither Spark nor Java. `help(dedupestream.audit)` shows the
parameters of a function, and docs/readers.md has more examples.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dedupe_crds.manifest import ManifestError, load_manifest
    from dedupe_crds.spec.stream import DedupeStream
    from dedupe_filters.reader import FilteredReader as Reader
    from dedupe_filters.reader import ReadStatistics
    from dedupe_kafka.errors import StreamError
    from dedupe_pipeline.jobs.aggregate import Postgres, aggregate, load_job
    from dedupe_pipeline.jobs.audit import audit
    from dedupe_pipeline.jobs.audit.result import AuditResult
    from dedupe_pipeline.jobs.land.job import LandResult, land
    from dedupe_pipeline.jobs.land.table_job import TableOptions, land_table
    from dedupe_pipeline.session import spark_session
    from dedupe_pipeline.source import read_clean, read_clean_stream
    from dedupe_pipeline.table_target import TableFormat, TableTarget

__all__ = [
    "AuditResult",
    "DedupeStream",
    "LandResult",
    "ManifestError",
    "Postgres",
    "ReadStatistics",
    "Reader",
    "StreamError",
    "TableFormat",
    "TableOptions",
    "TableTarget",
    "aggregate",
    "audit",
    "land",
    "land_table",
    "load_job",
    "load_manifest",
    "read_clean",
    "read_clean_stream",
    "spark_session",
]

_PLACES: Final = {
    "AuditResult": "dedupe_pipeline.jobs.audit.result",
    "DedupeStream": "dedupe_crds.spec.stream",
    "LandResult": "dedupe_pipeline.jobs.land.job",
    "ManifestError": "dedupe_crds.manifest",
    "Postgres": "dedupe_pipeline.jobs.aggregate",
    "ReadStatistics": "dedupe_filters.reader",
    "Reader": "dedupe_filters.reader",
    "StreamError": "dedupe_kafka.errors",
    "TableFormat": "dedupe_pipeline.table_target",
    "TableOptions": "dedupe_pipeline.jobs.land.table_job",
    "TableTarget": "dedupe_pipeline.table_target",
    "aggregate": "dedupe_pipeline.jobs.aggregate",
    "audit": "dedupe_pipeline.jobs.audit",
    "land": "dedupe_pipeline.jobs.land.job",
    "land_table": "dedupe_pipeline.jobs.land.table_job",
    "load_job": "dedupe_pipeline.jobs.aggregate",
    "load_manifest": "dedupe_crds.manifest",
    "read_clean": "dedupe_pipeline.source",
    "read_clean_stream": "dedupe_pipeline.source",
    "spark_session": "dedupe_pipeline.session",
}
_OTHER_NAMES: Final = {"Reader": "FilteredReader"}


def __getattr__(name: str) -> object:
    """Import a name at its first use.

    Raises:
        AttributeError: there is no such name.
        ImportError: a package is missing; it names the extra that has it.
    """
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place = _PLACES[name]
    try:
        found: object = getattr(import_module(place), _OTHER_NAMES.get(name, name))
    except ModuleNotFoundError as error:
        extra = "pipeline" if place.startswith("dedupe_pipeline") else "reader"
        raise ImportError(
            f"{__name__}.{name} needs the package {error.name}: install this project with its extra {extra!r}"
        ) from error
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
