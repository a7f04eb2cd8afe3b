"""Bound the memory that connections to Kafka take.

Whoever creates streams chooses clusters and Secrets, and each pair of them is a separate connection. One that exceeds
the bound is refused by name, and those that were there before are kept, so no namespace takes the operator down. The
view of a stream's Kafka calls it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.credentials import CredentialsUnusable, secret_hash
from dedupe_operator.decide.diagnosis import Problem

_MIB: Final = 1 << 20
# Measured with TLS: 1.6 MiB for three servers, which take two threads each; a megabyte of certificates takes another.
_CONNECTION_BYTES: Final = _MIB
_SERVER_BYTES: Final = 256 << 10
_COPIES: Final = 4

_Access = tuple[str, str]


@dataclass(slots=True)
class KafkaAccess:
    """The connections of all streams. Thread-safe.

    They take at most `most_bytes`, those of one namespace half of it.
    """

    most_bytes: int = 512 * _MIB
    _held: dict[Key, tuple[_Access, int]] = field(default_factory=dict, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def hold(self, stream: DedupeStream, secret: Mapping[str, bytes]) -> None:
        """Count what a stream connects with from now on.

        Raises CredentialsUnusable beyond a bound.
        """
        key = Key(stream.metadata.namespace, stream.metadata.name)
        servers = stream.spec.kafka.bootstrap_servers
        size = sum(map(len, secret.values())) * _COPIES
        size += _CONNECTION_BYTES + _SERVER_BYTES * (servers.count(",") + 1)
        access = servers, secret_hash(secret)
        with self._lock:
            self._held.pop(key, None)
            mine = self._bytes_beside(access, key.namespace) + size
            everybody = self._bytes_beside(access) + size
            if mine > self.most_bytes // 2:
                raise _refusal(f"the streams of namespace {key.namespace}", self.most_bytes // 2)
            if everybody > self.most_bytes:
                raise _refusal("all streams", self.most_bytes)
            self._held[key] = access, size

    def forget(self, key: Key) -> None:
        """Count a deleted stream no longer."""
        with self._lock:
            self._held.pop(key, None)

    def _bytes_beside(self, access: _Access, namespace: str | None = None) -> int:
        """Return the bytes of all other connections, by default those of all namespaces."""
        others = {
            each: size
            for key, (each, size) in self._held.items()
            if each != access and namespace in {None, key.namespace}
        }
        return sum(others.values())


def _refusal(whose: str, most_bytes: int) -> CredentialsUnusable:
    message = (
        f"the connections to Kafka of {whose} would take more than {most_bytes // _MIB} MiB of the operator's "
        "memory: let streams of one cluster share a Secret, keep in it only what the client needs, name fewer "
        "bootstrap servers, or raise the chart value resources.limits.memory"
    )
    return CredentialsUnusable(Problem(reason="TooManyConnections", message=message))
