"""All peers in the order of the page; those they are compared with come last."""

from typing import Final

from benchmarks.peers.flink import FLINK
from benchmarks.peers.kafka_streams import KAFKA_STREAMS
from benchmarks.peers.ours import BARE, OURS
from benchmarks.peers.peer import Peer
from benchmarks.peers.quix import QUIX, QUIX_BLOOM
from benchmarks.peers.spark import SPARK

PEERS: Final[dict[str, Peer]] = {
    peer.name: peer for peer in (QUIX, QUIX_BLOOM, KAFKA_STREAMS, SPARK, FLINK, OURS, BARE)
}
