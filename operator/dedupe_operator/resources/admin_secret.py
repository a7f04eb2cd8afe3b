"""Build the Secret with the token that admin requests to workers must carry."""

import secrets
from base64 import b64decode, b64encode
from typing import Final

from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources import metadata

TOKEN_KEY: Final = "token"  # noqa: S105 # the name of the key, not the token
_TOKEN_BYTES: Final = 32


def name(stream: str) -> str:
    """Return the name of the Secret."""
    return f"{stream}-admin"


def token(live: Object | None) -> str:
    """Return the token of the existing Secret, or a new one if it has no valid token."""
    encoded = ((live or {}).get("data") or {}).get(TOKEN_KEY, "")
    try:
        found = b64decode(encoded, validate=True).decode("ascii")
    except ValueError:
        found = ""
    return found if len(found) >= _TOKEN_BYTES else secrets.token_urlsafe(_TOKEN_BYTES)


def build(stream: DedupeStream, admin_token: str) -> Object:
    """Return the Secret that all workers of a stream mount."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata.of_stream(stream, name(stream.metadata.name)),
        "type": "Opaque",
        "data": {TOKEN_KEY: b64encode(admin_token.encode()).decode()},
    }
