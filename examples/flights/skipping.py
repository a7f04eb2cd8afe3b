"""`--filter CARRIER`: one carrier's flights, by reading everything and choosing, and by skipping chunks.

What makes skipping pay: each carrier sends a month's flights at once, so most chunks (a worker's transactions)
hold few carriers. Of flights in the order of their times every chunk would hold every carrier, and there would be
nothing to skip.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import orjson
from confluent_kafka import Message
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_crds.spec.stream import DedupeStream
from dedupe_filters.reader import FilteredReader
from dedupe_kafka.cluster import Cluster
from dedupe_local.servers.kafka import EmbeddedBroker
from dedupe_pipeline.source import read_clean
from examples.flights import data
from examples.flights.outcome import Read, Skipping

MANIFEST = Path(__file__).with_name("filtered.yaml")

_HEADER = "carrier"

Row = tuple[bytes, bytes]


def in_lots(flights: Sequence[data.Message], carrier: str) -> list[data.Message]:
    """The flights as they are sent: each carrier's of a month together.

    Raises:
        FlightsMissing: none is of `carrier`.
    """
    carriers = sorted({flight.carrier.decode() for flight in flights})
    if carrier not in carriers:
        raise data.FlightsMissing(
            f"None of the {len(flights):,} flights is of carrier {carrier}: choose one of {', '.join(carriers)}."
        )
    return sorted(flights, key=lambda flight: (orjson.loads(flight.value)["month"], flight.carrier))


class Comparison:
    """Reads a carrier's flights from a stream's clean topic, one way after another."""

    def __init__(
        self,
        spark: SparkSession,
        stream: DedupeStream,
        broker: EmbeddedBroker,
        carrier: str,
        flights: Sequence[data.Message],
    ) -> None:
        self._spark = spark
        self._stream = stream
        self._broker = broker
        self._carrier = carrier
        self._wanted = [(f.key, f.value) for f in flights if f.carrier == carrier.encode()]
        self._digest = _digest(self._wanted)

    def run(self) -> Skipping:
        """Read, each way once."""
        self._warm_up()
        reads = [
            self._plain_everything(),
            self._plain_skipping(),
            self._by_spark("Spark", self._spark_everything()),
            self._by_spark("Spark, skipping", self._spark_skipping()),
        ]
        return Skipping(carrier=self._carrier, flights=len(self._wanted), reads=reads)

    def _plain_everything(self) -> Read:
        meter = _Meter(self._broker.pid)
        wanted = self._carrier.encode()
        with self._reader(None) as reader:
            rows = [
                _row(record)
                for records in reader.batches()
                for record in records
                if dict(record.headers() or []).get(_HEADER) == wanted
            ]
            return self._read("plain reader", rows, meter)

    def _plain_skipping(self) -> Read:
        meter = _Meter(self._broker.pid)
        with self._reader([self._carrier]) as reader:
            rows = [_row(record) for records in reader.batches() for record in records]
            read = self._read("plain reader, skipping", rows, meter)
            counted = reader.statistics
        return read.model_copy(
            update={"chunks": counted.chunks, "chunks_skipped": counted.chunks_skipped}
        )

    def _by_spark(self, reader: str, frame: DataFrame) -> Read:
        meter = _Meter(self._broker.pid)
        return self._read(reader, _rows(frame), meter)

    def _read(self, reader: str, rows: list[Row], meter: "_Meter") -> Read:
        fetched_bytes, seconds = meter.read()
        return Read(
            reader=reader,
            records=len(rows),
            right=_digest(rows) == self._digest,
            fetched_bytes=fetched_bytes,
            seconds=seconds,
        )

    def _reader(self, values: list[str] | None) -> FilteredReader:
        spec = self._stream.spec
        return FilteredReader(spec.kafka.bootstrap_servers, spec.output.topic, values=values)

    def _spark_everything(self) -> DataFrame:
        """By Spark's own Kafka source."""
        wanted = F.lit(self._carrier).cast("binary")
        return read_clean(self._spark, self._stream).where(
            F.exists("headers", lambda h: (h["key"] == _HEADER) & (h["value"] == wanted))
        )

    def _spark_skipping(self) -> DataFrame:
        return self._source(filter=self._carrier)

    def _source(self, **more: str) -> DataFrame:
        spec = self._stream.spec
        options = {
            "bootstrapServers": spec.kafka.bootstrap_servers,
            "topic": spec.output.topic,
            **more,
        }
        return self._spark.read.format("dedupestream").options(**options).load()

    def _warm_up(self) -> None:
        """Have Spark start what runs Python, and read Kafka once: that is not what is compared."""
        spec = self._stream.spec
        partitions = Cluster(spec.kafka.bootstrap_servers).topic_state(spec.output.topic).ends
        _rows(self._source(endingOffsets=json.dumps(dict.fromkeys(partitions, 1))))
        read_clean(self._spark, self._stream).limit(1).collect()


def _row(record: Message) -> Row:
    return record.key() or b"", record.value() or b""


def _rows(frame: DataFrame) -> list[Row]:
    table = frame.select("key", "value").toArrow()
    return list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def _digest(rows: Iterable[Row]) -> bytes:
    """Of the rows in any order."""
    whole = hashlib.sha256()
    for key, value in sorted(rows):
        whole.update(b"%d:%d:%b%b" % (len(key), len(value), key, value))
    return whole.digest()


class _Meter:
    """What a broker that does nothing else has sent, and for how long, since the meter was made.

    It is what its process has written, to connections and files, as Linux counts it.
    """

    def __init__(self, pid: int) -> None:
        self._counts = Path(f"/proc/{pid}/io")
        self._sent = self._written()
        self._began = time.monotonic()

    def read(self) -> tuple[int, float]:
        """Bytes and seconds."""
        seconds = time.monotonic() - self._began
        return self._written() - self._sent, seconds

    def _written(self) -> int:
        lines = self._counts.read_text(encoding="ascii").splitlines()
        return int(dict(line.split(": ") for line in lines)["wchar"])
