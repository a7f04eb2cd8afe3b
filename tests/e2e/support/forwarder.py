"""A way to an address that a test opens when it likes: until then connections are refused."""

import socket
from threading import Thread

_CHUNK_BYTES = 1 << 16


class Forwarder:
    """Passes on to `target` (HOST:PORT) what comes to a port of its own at the target's host.

    Kafka clients need it for their first question only: the answer tells them the brokers' own addresses.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.socket()
        self._listener.bind((host, 0))  # it does not listen yet, and nobody else may have the port

    @property
    def address(self) -> str:
        """HOST:PORT."""
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def open(self) -> None:
        """Take connections from now on."""
        self._listener.listen()
        _in_background(self._accept, self._listener)

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # closed
            server = socket.create_connection(self._target)
            _in_background(_pump, client, server)
            _in_background(_pump, server, client)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(_CHUNK_BYTES):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        sink.close()  # the other way ends with it


def _in_background(work: object, *arguments: object) -> None:
    Thread(target=work, args=arguments, daemon=True).start()  # type: ignore[arg-type] # a function
