"""An HTTP server with bounds: no client can fill it or keep others out.

The worker and the operator serve their APIs and probes with it. It is waitress, except that

- a connection has `_REQUEST_SECONDS` from the first byte of a request to its last, and again to take the answer;
  waitress restarts its time-out with each byte;
- at the limit the connection that has waited longest is closed for a new one; waitress stops accepting, so idle
  connections would lock out a probe;
- bodies are refused beyond a limit before they are read, and never written to a file: waitress takes 1 GiB;
- it polls: select() fails beyond 1,024 file descriptors, and a large store has more.
"""

import errno
import socket
from time import monotonic
from typing import Any, Final

from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher

from dedupe_kafka.errors import InvalidConfig

MAX_BODY_BYTES: Final = 1 << 20
_MAX_HEADER_BYTES: Final = 16 << 10
_MAX_CONNECTIONS: Final = 64
_ANSWER_BYTES: Final = 16 << 20
_REQUEST_SECONDS: Final = 20.0
_IDLE_SECONDS: Final = 60.0
_NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
_EVERY_HOST: Final = "0.0.0.0"  # noqa: S104 (who passes it decides)


class _Channel(HTTPChannel):  # type: ignore[misc] # waitress has no types
    """A connection, with the time at which its present state began."""

    def __init__(self, *args: object, **options: object) -> None:
        self.since = monotonic()
        self.was_polled = False
        super().__init__(*args, **options)

    @property
    def is_served(self) -> bool:
        """Return whether a handler runs, or a complete request waits for one."""
        return bool(self.requests)

    @property
    def is_late(self) -> bool:
        """Return whether the client is too slow with its request or the answer."""
        begun = self.request is not None or self.total_outbufs_len
        return monotonic() - self.since > (_REQUEST_SECONDS if begun else _IDLE_SECONDS)

    def received(self, data: bytes) -> bool:
        """Parse what was received."""
        if self.request is None:
            self.since = monotonic()
        return bool(super().received(data))

    def write_soon(self, data: object) -> int:
        """Take a part of an answer from a handler."""
        self.since = monotonic()
        return int(super().write_soon(data))

    def readable(self) -> bool:
        """Return whether to read; when closed, its descriptor may be another's."""
        self.was_polled = True
        return self.connected and bool(super().readable())

    def writable(self) -> bool:
        """Return whether to write."""
        return self.connected and bool(super().writable())


class BoundedServer(TcpWSGIServer):  # type: ignore[misc] # waitress has no types
    """Serve a WSGI application at one address, from `threads` threads.

    Port 0 takes any free port; `effective_port` is that port. The host 0.0.0.0 is every address, those of IPv6 too: a
    pod may have no other. `run` serves until the process ends. Raises InvalidConfig if the address cannot be used.
    """

    channel_class = _Channel

    def __init__(
        self,
        app: Any,  # noqa: ANN401 (a WSGI application, which has no common type)
        host: str,
        port: int,
        *,
        threads: int,
        max_body_bytes: int = MAX_BODY_BYTES,
        max_connections: int = _MAX_CONNECTIONS,
    ) -> None:
        self._max_connections = max_connections
        try:
            adjustments = Adjustments(
                host=host,
                port=port,
                ident=None,
                asyncore_use_poll=True,
                # waitress refuses what reaches its limit
                max_request_body_size=max_body_bytes + 1,
                max_request_header_size=_MAX_HEADER_BYTES,
                # larger bodies and answers would go to files
                inbuf_overflow=max_body_bytes + 1,
                outbuf_overflow=_ANSWER_BYTES,
                log_socket_errors=False,  # a client that goes away is its own affair
            )
            bound = _bound_to_both_families(port) if host == _EVERY_HOST else None
            dispatcher = ThreadedTaskDispatcher()
            dispatcher.set_thread_count(threads)
            super().__init__(
                app, dispatcher=dispatcher, adj=adjustments, _sock=bound, bind_socket=bound is None
            )
        except (OSError, ValueError) as error:
            raise InvalidConfig(
                f"{host}:{port} cannot be used: {error}. Stop what listens there, or choose another address"
            ) from error

        if bound is not None:
            self.effective_host = host

    @property
    def address(self) -> str:
        """Return HOST:PORT as in a URL, with the port that was taken."""
        host = str(self.effective_host)
        return f"[{host}]:{self.effective_port}" if ":" in host else f"{host}:{self.effective_port}"

    def readable(self) -> bool:
        """Close connections that are late or too many; return whether to accept another.

        waitress calls this before each wait, which lasts a second at most. Closed here, a descriptor is not used again
        before the wait's events are handled.
        """
        # What a connection that is not polled yet has sent is still unread.
        waiting = [
            each for each in self.active_channels.values() if each.was_polled and not each.is_served
        ]
        waiting.sort(key=lambda channel: channel.since)
        excess = len(self.active_channels) - self._max_connections + 1
        for number, channel in enumerate(waiting):
            if number < excess or channel.is_late:
                channel.handle_close()
        return bool(self.accepting) and len(self.active_channels) < self._max_connections


def _bound_to_both_families(port: int) -> socket.socket | None:
    """Return a socket for all addresses of IPv4 and IPv6; None where there is no IPv6.

    Raises OSError if the port is taken.
    """
    try:
        return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    except ValueError:  # this platform's sockets have one family
        return None
    except OSError as error:
        if error.errno in _NO_IPV6:
            return None
        raise
