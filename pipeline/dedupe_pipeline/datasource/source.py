"""`spark.read.format("dedupestream")` and `spark.readStream.format("dedupestream")`.

    spark.read.format("dedupestream").options(
        bootstrapServers="localhost:9092", topic="orders-clean", filter='["DE", "FR"]'
    ).load()

Options, of which the first two are required:

    bootstrapServers      brokers to ask first
    topic                 the topic to read; its filters are in <topic>-filters
    filter                a value, or a JSON array of values, of which records must have one; all records without it
    matchUnfiltered       true: records without a value, too
    header, jsonPath      where the value is; without either, where the newest filters have it from
    filterColumn          name of a column with the value, as text
    pushFilters           batch only; true: conditions on filterColumn (=, IN) skip as `filter` does, see below
    startingOffsets       earliest (default), latest, or {"0": 17, …}: only the partitions named are read
    endingOffsets         batch only: latest (default) or {"0": 17, …}
    minPartitions         about so many tasks; at least, and by default, there is one for each partition with work
    maxRecordsPerTrigger  streaming only: at most so many records to read in a micro-batch; what is skipped does not
                          count
    gapOffsets            so many offsets between two ranges are fetched rather than skipped
    kafka.PROPERTY        librdkafka's client properties (SASL, TLS)

Rows are those of a read of everything, filtered afterwards; only committed records are read. A read whose records were
deleted meanwhile fails, and does not go on without them.

pushFilters is off unless asked for, and Spark refuses it where spark.sql.python.filterPushdown.enabled is not set.
Spark 4.2 keeps what was pushed with the loaded frame, for whatever is made of that frame later or beside it: the union
of two conditions gives the rows of one. So load a frame for each condition, and use it for nothing else; `filter` has
no such trap.
"""

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from dedupe_pipeline.datasource.arrow import spark_schema
from dedupe_pipeline.datasource.batch import BatchReader, FilteringReader
from dedupe_pipeline.datasource.options import read_options
from dedupe_pipeline.datasource.stream import StreamReader


class DedupeStreamSource(DataSource):
    """A topic of a stream, with the columns of `dedupe_pipeline.source.COLUMNS`; options as the module says."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "dedupestream"

    def schema(self) -> StructType:
        """The columns. Raises InvalidConfig for options that can't be used."""
        return spark_schema(read_options(self.options).filter_column)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 (Spark's interface)
        """A batch read."""
        options = read_options(self.options)
        return FilteringReader(options) if options.push_filters else BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """A streaming read."""
        return StreamReader(read_options(self.options))
