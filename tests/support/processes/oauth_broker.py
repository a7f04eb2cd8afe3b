"""A broker with a listener for OAUTHBEARER, whose tokens are not signed."""

from pathlib import Path
from typing import Final

from dedupe_local.servers.kafka import HOST, EmbeddedBroker, free_ports
from tests.support.processes.brokers import LASTING_SESSION_SECONDS, START_SECONDS

USER: Final = "reader"
LOGIN: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="{}";'
)
"""The Java client's login with a token of its own making."""


class OauthBroker(EmbeddedBroker):
    """A broker with two listeners: an open one for the tests, and OAUTHBEARER.

    On the latter only USER may do anything.
    """

    def __init__(self, data_dir: Path, *, host: str = HOST) -> None:
        super().__init__(
            data_dir,
            host=host,
            session_seconds=LASTING_SESSION_SECONDS,
            start_seconds=START_SECONDS,
        )
        self._oauth_port = free_ports(1, host)[0]

    @property
    def oauth_servers(self) -> str:
        """Return HOST:PORT of the listener with tokens."""
        return f"{self.host}:{self._oauth_port}"

    def _configure(self, port: int, controller_port: int) -> Path:
        properties = super()._configure(port, controller_port)
        plain, oauth = f"{self.host}:{port}", self.oauth_servers
        # Java uses the last value of a property that is set twice.
        with properties.open("a") as file:
            file.write(
                f"""
listeners=PLAINTEXT://{plain},OAUTH://{oauth},CONTROLLER://{self.host}:{controller_port}
advertised.listeners=PLAINTEXT://{plain},OAUTH://{oauth}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,OAUTH:SASL_PLAINTEXT
sasl.enabled.mechanisms=OAUTHBEARER
listener.name.oauth.oauthbearer.sasl.jaas.config={LOGIN.format("broker")}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:{USER}
"""
            )
        return properties
