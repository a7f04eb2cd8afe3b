"""Types of the texts in a manifest, each with the pattern that it must match."""

from typing import Annotated, Any

import re2
from pydantic import Field

from dedupe_crds.bootstrap_servers import HOST, LONGEST, MUST_BE, PORT, SERVERS
from dedupe_crds.json_path import SINGULAR_PATH, SINGULAR_PATH_RULE
from dedupe_crds.rules import FieldRule, matching

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
BootstrapServers = Annotated[
    str, Field(min_length=1, max_length=LONGEST), matching(SERVERS, MUST_BE)
]
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
        rf"https?://{HOST}(:{PORT})?(/[^ ]*)?",
        "must be a URL that begins with http:// or https://",
    ),
]
FoundAt = Annotated[
    str,
    Field(min_length=1, max_length=16),
    matching(
        "[0-9]{8}T[0-9]{6}Z", "must be the time that the message names, such as 20260131T235959Z"
    ),
]
HeaderName = Annotated[str, Field(min_length=1, max_length=255)]
JsonPath = Annotated[
    str,
    Field(min_length=1, max_length=1024),
    matching(SINGULAR_PATH, SINGULAR_PATH_RULE),
]
ImageName = Annotated[str, Field(min_length=1, max_length=1024)]
