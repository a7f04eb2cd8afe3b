"""All peers in the order of the page; those they are compared with come last."""

from typing import Final

from benchmarks.peers.flink import FLINK, FLINK_UNKEYED
from benchmarks.peers.kafka_streams import KAFKA_STREAMS, KAFKA_STREAMS_UNKEYED
from benchmarks.peers.ours import BARE, OURS, OURS_UNKEYED
from benchmarks.peers.peer import Peer
from benchmarks.peers.quix import QUIX, QUIX_BLOOM
from benchmarks.peers.spark import SPARK

PEERS: Final[dict[str, Peer]] = {
    peer.name: peer for peer in (QUIX, QUIX_BLOOM, KAFKA_STREAMS, SPARK, FLINK, OURS, BARE)
}

UNKEYED: Final[dict[str, Peer]] = {
    peer.name: peer for peer in (KAFKA_STREAMS_UNKEYED, FLINK_UNKEYED, OURS_UNKEYED)
}
"""Those that are measured on an input without keys."""
