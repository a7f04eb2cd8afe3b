"""Connect to the API server with the pod's credentials, or with those of a user.

The process calls `load_client` once.
"""

import socket
from typing import Final

from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException
from urllib3.connection import HTTPConnection

from dedupe_operator.errors import KubernetesError

_CONNECTIONS: Final = 32  # each watch keeps one
# A watch over a connection that has died ends within a minute.
_KEEPALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)


def load_client() -> client.ApiClient:
    """Return a client with the pod's credentials, or with KUBECONFIG outside.

    Raises KubernetesError without either.
    """
    configuration = client.Configuration()
    try:
        config.load_incluster_config(client_configuration=configuration)
    except ConfigException:
        try:
            config.load_kube_config(client_configuration=configuration)
        except ConfigException as error:
            raise KubernetesError("NoCredentials", f"no access to a cluster: {error}") from error
    configuration.connection_pool_maxsize = _CONNECTIONS
    configuration.socket_options = [*HTTPConnection.default_socket_options, *_KEEPALIVE]
    return client.ApiClient(configuration)
