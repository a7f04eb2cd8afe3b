"""The Spark data source of `spark.read` and `readStream.format("dedupestream")`.

    spark.read.format("dedupestream").options(
        bootstrapServers="localhost:9092", topic="orders-clean", filter='["DE", "FR"]'
    ).load()

Options, of which the first two are required:

    bootstrapServers      brokers to ask first
    topic                 the topic to read; its filters are in <topic>-filters
    filter                the wanted value, or a JSON array of wanted values; by default all records are read
    matchUnfiltered       true: records without a value as well
    header, jsonPath      the source of the value; by default the source of the newest filters
    filterColumn          name of a column with the value, as text
    pushFilters           batch only; true: conditions on filterColumn (=, IN) skip as `filter` does, see below
    startingOffsets       earliest (default), latest, or {"0": 17, …}: only these partitions are read
    endingOffsets         batch only: latest (default) or {"0": 17, …}
    minPartitions         approximate number of tasks; at least, and by default, one for each partition with work
    maxRecordsPerTrigger  streaming only, from Spark 4.2 on: the maximum of records to read in a micro-batch; skipped
                          records do not count
    gapOffsets            a gap of at most so many offsets between two ranges is fetched, not skipped
    kafka.PROPERTY        librdkafka client properties (SASL, TLS)

The rows are those of a read of everything, filtered afterwards; only committed records are read. A read fails if its
records were deleted meanwhile, and does not continue without them.

pushFilters is off by default, and Spark refuses it unless spark.sql.python.filterPushdown.enabled is set. Spark
keeps a pushed condition with the loaded frame, and applies it to everything else that is derived from that frame: the
union of two conditions returns the rows of only one. So load a separate frame for each condition, and use it for
nothing else. `filter` has no such problem.
"""

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from dedupe_pipeline.datasource.arrow import spark_schema
from dedupe_pipeline.datasource.batch import BatchReader, FilteringReader
from dedupe_pipeline.datasource.options import read_options
from dedupe_pipeline.datasource.stream import StreamReader


class DedupeStreamSource(DataSource):
    """A topic with the columns of `dedupe_pipeline.source.COLUMNS`.

    The module documents the options.
    """

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "dedupestream"

    def schema(self) -> StructType:
        """Return the columns. Raises InvalidConfig for invalid options."""
        return spark_schema(read_options(self.options).added)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 (Spark's interface)
        """Return the reader of a batch."""
        options = read_options(self.options)
        return FilteringReader(options) if options.push_filters else BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """Return the reader of a stream."""
        return StreamReader(read_options(self.options))
