"""Pass each key on once: one of several equal processes of a Quix application.

Arguments: SERVERS INPUT OUTPUT STATE_DIR INSTANCE COMMIT_SECONDS (stock | bloom), then client properties of the
producer, each as name=value. It runs in a separate virtual environment, with Quix Streams in it.
"""

import sys

from quixstreams import Application, State  # type: ignore[import-not-found] # of its own environment
from quixstreams.state.rocksdb import RocksDBOptions  # type: ignore[import-not-found]
from rocksdict import Options

_BLOCK_CACHE_BYTES = 512 << 20  # no block that was read has to be read again


class PointLookup(RocksDBOptions):  # type: ignore[misc] # of an untyped import
    """The stock options, and OptimizeForPointLookup.

    The stock options set a Bloom filter by rocksdict's BlockBasedOptions.set_bloom_filter, which writes it into the
    tables but lets no lookup use it (rocksdict 0.3.29; `bloom.filter.useful` stays 0). With these options the
    filter is used.
    """

    def to_options(self) -> Options:
        """RocksDB's options."""
        options: Options = super().to_options()
        options.optimize_for_point_lookup(_BLOCK_CACHE_BYTES >> 20)
        return options


def first(_value: bytes, state: State) -> bool:
    """Return True if the key is new; `state` is that of the key.

    Bytes avoid a JSON codec.
    """
    if state.get_bytes("seen") is not None:
        return False
    state.set_bytes("seen", b"1")
    return True


def main() -> None:
    """Run until SIGTERM."""
    servers, source, target, state_dir, instance, commit_seconds, options = sys.argv[1:8]
    app = Application(
        broker_address=servers,
        consumer_group=f"quix-{target}",
        auto_offset_reset="earliest",
        state_dir=state_dir,
        processing_guarantee="exactly-once",
        commit_interval=float(commit_seconds),
        loglevel="INFO",
        rocksdb_options=(PointLookup if options == "bloom" else RocksDBOptions)(
            block_cache_size=_BLOCK_CACHE_BYTES
        ),
        # After a SIGKILL the group waits for this long before it gives the partition away.
        consumer_extra_config={"session.timeout.ms": 10_000},
        producer_extra_config={
            # The default changes with each start: a transaction left open by a crash would then block readers until it
            # times out, instead of being aborted by the next start.
            "transactional.id": f"quix-{target}-{instance}",
            "partitioner": "murmur2_random",  # Java's, as the input was partitioned
            **dict(each.split("=", 1) for each in sys.argv[8:]),
        },
    )
    messages = app.dataframe(
        app.topic(source, key_deserializer="bytes", value_deserializer="bytes")
    )
    messages = messages.filter(first, stateful=True)
    messages.to_topic(app.topic(target, key_serializer="bytes", value_serializer="bytes"))
    app.run()


if __name__ == "__main__":
    main()
