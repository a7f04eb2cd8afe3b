"""A proxy before PostgreSQL whose host vanishes in the middle of a connection, without a word.

The kernel drops all that arrives on the connection, by a filter on the proxy's socket: it acknowledges nothing, neither
data nor keepalives, and sends nothing. New connections are served: the host is back.
"""

import ctypes
import socket
import struct
import threading
from contextlib import suppress
from typing import Self

_SO_ATTACH_FILTER = 26  # linux/socket.h
_RETURN_NOTHING = struct.pack("HBBI", 0x06, 0, 0, 0)  # BPF_RET | BPF_K, 0 bytes of the packet
_CHUNK_BYTES = 65_536


class VanishingHost:
    """Passes connections on to a server, until a client sends `at`; that connection vanishes.

    With `both_sides` the server keeps its session too, as if only the network were gone.
    """

    def __init__(self, server: tuple[str, int], at: bytes, *, both_sides: bool = False) -> None:
        self._server = server
        self._at = at
        self._both_sides = both_sides
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._gone: socket.socket | None = None
        self.port: int = self._listener.getsockname()[1]

    @property
    def has_vanished(self) -> bool:
        """Return whether a connection vanished."""
        return self._gone is not None

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._open):
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                self._open += [client, server]
                for passing in (self._to_server, self._to_client):
                    threading.Thread(target=passing, args=(client, server), daemon=True).start()

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(_CHUNK_BYTES):
                if self._at in data and self._gone is None:
                    self._vanish(client, server)
                    return
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)

    def _to_client(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(_CHUNK_BYTES):
                if client is not self._gone:
                    client.sendall(data)
            if client is not self._gone:  # its end would tell the client
                client.shutdown(socket.SHUT_WR)

    def _vanish(self, client: socket.socket, server: socket.socket) -> None:
        self._gone = client
        _drop_all(client)
        if self._both_sides:
            _drop_all(server)
        else:
            server.shutdown(socket.SHUT_WR)


def _drop_all(connection: socket.socket) -> None:
    program = ctypes.create_string_buffer(_RETURN_NOTHING)
    described = struct.pack("HP", 1, ctypes.addressof(program))
    connection.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)
