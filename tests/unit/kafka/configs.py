"""Settings of topics, as a cluster describes them."""

from typing import Final

CONFIG: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "max.message.bytes": "1048588",
    "min.insync.replicas": "1",
    "message.timestamp.type": "CreateTime",
}
