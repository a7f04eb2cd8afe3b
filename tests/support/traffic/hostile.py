"""Raw traffic that Kafka accepts but that is malformed for everything else."""

import random
from collections.abc import Iterator, Sequence
from uuid import UUID

from tests.support.checker.record import Headers, Message
from tests.support.traffic.traffic import ID_HEADER, START_MS

KEYS: Sequence[bytes | None] = (
    None,
    b"",
    b"k",
    b"\x00",
    b"\xff\xfe\xfd",
    b"x" * 10_240,
    b"x" * 10_239 + b"y",
    b"f47ac10b-58cc-4372-a567-0e02b2c3d479",
    b"F47AC10B-58CC-4372-A567-0E02B2C3D479",
    b"f47ac10b58cc4372a5670e02b2c3d479",
    UUID("f47ac10b-58cc-4372-a567-0e02b2c3d479").bytes,
    b"f47ac10b-58cc-4372-a567-0e02b2c3d47g",
    "schlüssel".encode(),
    "schlüssel".encode("latin-1"),
)
"""Keys that are no id, long, not text, or similar to another."""

VALUES: Sequence[bytes | None] = (
    None,
    b"",
    b"\x00",
    b"plain text",
    b"\xff\xfe not UTF-8 \x80",
    b"v" * 100_000,
    b"{",
    b'{"order": {"id": "a"}}',
    b'{"order": {"id": "a"}, "again": true}',
    b'{"order": {"id": "1"}}',
    b'{"order": {"id": 1}}',
    b'{"order": {"id": 1.0}}',
    b'{"order": {"id": 1e0}}',
    b'{"order": {"id": -0}}',
    b'{"order": {"id": 0}}',
    b'{"order": {"id": true}}',
    b'{"order": {"id": null}}',
    b'{"order": {"id": ""}}',
    b'{"order": {"id": ["a"]}}',
    b'{"order": {"id": {"id": "a"}}}',
    b'{"order": "a"}',
    b'{"id": "a"}',
    b'["order", "id"]',
    b'"order"',
    b"null",
    b'{"order": {"id": 18446744073709551615}}',
    b'{"order": {"id": 18446744073709551616}}',
    b'{"order": {"id": -9223372036854775808}}',
    b'{"order": {"id": -9223372036854775809}}',
    b'{"order": {"id": "a"}} trailing',
    b'\xef\xbb\xbf{"order": {"id": "a"}}',
    b'{"order": {"id": "\xff"}}',
    b'{"order": {"id": "\\ud800"}}',
    b'{"order": {"id": "\\u0061"}}',
    b'{"order": {"id": "\\u0000"}}',
    b'{"order": {"id": "a\nb"}}',
    b'{"order": {"id": NaN}}',
    b'{"order": {"id": "a", "id": "b"}}',
    b"{'order': {'id': 'a'}}",
    b'{"order": {"id": "a"},}',
    '{"order": {"id": "schlüssel"}}'.encode(),
    '{"order": {"id": "schlu\u0308ssel"}}'.encode(),
    '{"order": {"id": "a"}}'.encode("utf-16"),
    b'{"order": {"id": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    b'{"order": {"id": "a"}, "deep": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"order": {"id": "a"}, "deep": ' + b"[" * 100_000,
    b'{"order": {"id": "a"}, "deep": ' + b"[" * 500 + b"]" * 500 + b"}",
)
"""Values that are no JSON, or JSON with an absent, odd or similar id at ID_PATH."""


def hostile(seed: int, count: int, *, partitions: int = 1) -> Iterator[Message]:
    """Yield messages that Kafka accepts but that are malformed for everything else.

    Ids come from a small set: so most of them repeat, while the rest of the record differs.
    """
    rng = random.Random(seed)
    for position in range(count):
        key = rng.choice(KEYS)
        yield Message(
            partition=(sum(key) if key else rng.getrandbits(16)) % partitions,
            key=key,
            value=rng.choice(VALUES),
            headers=_hostile_headers(rng),
            timestamp_ms=START_MS + position,
        )


def _hostile_headers(rng: random.Random) -> Headers:
    names = (ID_HEADER, ID_HEADER, "trace", "", "Message-Id", "überschrift")
    values = (None, b"", b"a", b"b", b"\xff\x00\xfe", b"h" * 2_000)
    return tuple((rng.choice(names), rng.choice(values)) for _ in range(rng.randrange(6)))
