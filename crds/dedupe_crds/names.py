"""Types of the texts in a manifest, each with the pattern that it must match."""

from typing import Annotated, Any

import re2
from pydantic import Field

from dedupe_crds.rules import FieldRule, matching, shown

# A StatefulSet's name takes at most 52 characters, because its pods carry it with an 11 character
# hash in a label of 63; "-" and a partition of up to 5 digits follow the stream's name.
MAX_STREAM_NAME = 52 - len("-99999")
StreamName = Annotated[
    str,
    Field(min_length=1, max_length=MAX_STREAM_NAME),
    matching(
        "[a-z]([-a-z0-9]*[a-z0-9])?",
        "must be lower-case letters, digits and '-', beginning with a letter and not ending with "
        "'-', because Services and StatefulSets are named after it",
    ),
]
TopicName = Annotated[
    str,
    Field(min_length=1, max_length=249),
    matching(
        r"[a-zA-Z0-9._-]*[a-zA-Z0-9_-][a-zA-Z0-9._-]*|\.{3,}",
        "must be a Kafka topic name: 1 to 249 letters, digits, '.', '_' and '-', not '.' or '..'",
    ),
]


def topic_expression(pattern: str) -> Any:  # noqa: ANN401 # the library has no types
    """Compile a pattern of topics with RE2, as the API server does.

    It takes linear time for each name. Python's own engine takes exponential time for some patterns, and stops all
    threads meanwhile: a user's pattern would stop the operator. Raises re2.error.
    """
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def _is_expression(pattern: str) -> bool:
    try:
        topic_expression(pattern)
    except re2.error:
        return False
    return True


TopicPattern = Annotated[
    str,
    Field(min_length=1, max_length=249),
    matching(
        r"[a-zA-Z0-9._,\[\]()|*+?{}^$-]+",
        "must be a regular expression of letters, digits and . _ - , [ ] ( ) | * + ? { } ^ $",
    ),
    FieldRule(
        cel="'x'.matches(self) in [true, false]",
        message="must be a valid regular expression",
        holds=_is_expression,
    ),
]
ObjectName = Annotated[
    str,
    Field(min_length=1, max_length=253),
    matching(
        r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
        "must be the name of a Kubernetes object: lower-case letters, digits, '-' and '.'",
    ),
]
_PORT = r"([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_HOST = r"([a-zA-Z0-9_]([a-zA-Z0-9._-]*[a-zA-Z0-9_])?|\[[0-9a-fA-F:.]+\])"
_SERVERS = matching(
    rf"{_HOST}:{_PORT}(,{_HOST}:{_PORT})*",
    # librdkafka takes a server with another protocol than security.protocol for none at all, and says nothing.
    "must be host:port, or several separated by commas, with no spaces between and no protocol such as SSL:// "
    "before: that is the client property security.protocol",
)
BootstrapServers = Annotated[str, Field(min_length=1, max_length=2048), _SERVERS]


def check_bootstrap_servers(text: str) -> str:
    """Return bootstrap servers that have the form of those in a manifest.

    >>> check_bootstrap_servers("kafka:9092,[::1]:9092")
    'kafka:9092,[::1]:9092'

    Raises:
        ValueError: they have another form, such as a host without a port.
    """
    if _SERVERS.holds is not None and not _SERVERS.holds(text):
        raise ValueError(f"{shown(text)} {_SERVERS.message}")
    return text


_CRON_PART = r"[0-9A-Za-z*/,?#-]+"
_CRON_MACRO = "@(hourly|daily|midnight|weekly|monthly|yearly|annually)"
Schedule = Annotated[
    str,
    Field(min_length=1, max_length=100),
    matching(
        rf"{_CRON_MACRO}|{_CRON_PART}( +{_CRON_PART}){{4}}",
        "must be a cron schedule: 5 fields (minute, hour, day, month, weekday) such as "
        "'*/15 * * * *', or @hourly, @daily, @weekly, @monthly, @yearly",
    ),
]
BucketName = Annotated[
    str,
    Field(min_length=3, max_length=63),
    matching(
        "[a-z0-9]([-.a-z0-9]*[a-z0-9])?",
        "must be the name of a bucket: 3 to 63 lower-case letters, digits, '-' and '.'",
    ),
]
EndpointUrl = Annotated[
    str,
    Field(min_length=1, max_length=2048),
    matching(
        rf"https?://{_HOST}(:{_PORT})?(/[^ ]*)?",
        "must be a URL that begins with http:// or https://",
    ),
]
HeaderName = Annotated[str, Field(min_length=1, max_length=255)]
JsonPath = Annotated[
    str,
    Field(min_length=1, max_length=1024),
    matching(r"\$([ .\[].*)?", "must be a JSONPath that begins with $, such as $.order.id"),
]
ImageName = Annotated[str, Field(min_length=1, max_length=1024)]
