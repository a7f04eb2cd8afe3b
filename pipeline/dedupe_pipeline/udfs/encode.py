"""Encode ids as the 16-byte keys of the worker's store, for the job `bootstrap`."""

import binascii
from hashlib import blake2b

_UUID_CHARS = 36
_DASHES = (8, 13, 18, 23)


def encode_id(raw: bytes) -> bytes:
    """Return the 16 bytes of an id: those of a canonical UUID, otherwise a hash.

    >>> encode_id(b"00000000-0000-0000-0000-0000000000ff").hex()
    '000000000000000000000000000000ff'
    """
    if len(raw) == _UUID_CHARS and all(raw[place] == 0x2D for place in _DASHES):
        digits = raw.replace(b"-", b"")
        try:
            packed = binascii.unhexlify(digits)
        except binascii.Error:
            packed = b""
        if len(packed) == 16 and raw == raw.lower():
            return packed
    return blake2b(raw, digest_size=16).digest()


def encode_content(key: bytes | None, value: bytes | None) -> bytes | None:
    """Return the 16 bytes of a record's content, None without key and value."""
    if key is None and value is None:
        return None
    length = -1 if key is None else len(key)
    head = length.to_bytes(8, "big", signed=True) + (key or b"")
    body = b"\0" if value is None else b"\1" + value
    return blake2b(head + body, digest_size=16).digest()


def encode_json(found: bytes | None) -> bytes | None:
    """Return the 16 bytes of an id that `json_id.extractor` found."""
    if found is None:
        return None
    return encode_id(found[1:] if found[:1] == b"s" else b"\xff" + found[1:])


def is_utf8(raw: bytes) -> bool:
    """Return whether bytes are UTF-8."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
