"""Options of Spark's Kafka source that users give.

They pass to the source as they are, so that all that Spark's Java client can do is possible: OAUTHBEARER, Kerberos, MSK
IAM, limits. Refused are those on which the results depend, and names that Spark does not know, as it ignores them.
"""

from collections.abc import Collection, Mapping
from typing import Final

from dedupe_pipeline.errors import RequestRefused

STARTING: Final = (
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
)
ENDING: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
LIMITS: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_KAFKA: Final = "kafka."
_KNOWN: Final = (
    *STARTING,
    *ENDING,
    *LIMITS,
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "maxRecordsPerPartition",
    "minPartitions",
)
_ITSELF: Final = "Spark's Kafka source sets it itself"
_REFUSED: Final = {
    "assign": "the manifest names the topics",
    "subscribe": "the manifest names the topics",
    "subscribepattern": "the manifest names the topics",
    "failondataloss": "records that were deleted before they were read would be missed without an error",
    "includeheaders": "headers are a column of each read",
    "kafka.isolation.level": "records of aborted transactions would be read",
    "kafka.group.id": "reads that share a group disturb each other; where ACLs name groups, give groupIdPrefix",
    "kafka.auto.offset.reset": _ITSELF,
    "kafka.enable.auto.commit": _ITSELF,
    "kafka.interceptor.classes": _ITSELF,
    "kafka.key.deserializer": _ITSELF,
    "kafka.value.deserializer": _ITSELF,
}


def check_options(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options by the names that Spark's documentation uses.

    As for Spark, case does not matter. Values may be secret, and are in no message.

    Raises:
        RequestRefused: an option is unknown or given twice, or the results depend on it.
    """
    known = {name.lower(): name for name in _KNOWN}
    found: dict[str, str] = {}
    for name, value in given.items():
        lower = name.lower()
        if reason := _REFUSED.get(lower):
            raise RequestRefused(f"the Spark Kafka option {name} is refused: {reason}; remove it")
        proper = lower if lower.startswith(_KAFKA) else known.get(lower)
        if proper is None:
            raise RequestRefused(
                f"the Spark Kafka option {name} is unknown; known are {', '.join(_KNOWN)}, and {_KAFKA}PROPERTY for "
                "properties of the Java client"
            )
        if proper in found:
            raise RequestRefused(f"the Spark Kafka option {proper} is given twice; remove one")
        found[proper] = value
    return found


def refuse(given: Collection[str], names: Collection[str], reason: str) -> None:
    """Refuse those of the given options that a job sets itself, or cannot use.

    Raises:
        RequestRefused: one of them is among `names`.
    """
    for name in names:
        if name in given:
            raise RequestRefused(f"the Spark Kafka option {name} is refused: {reason}; remove it")
