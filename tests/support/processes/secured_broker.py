"""A broker with a listener for SASL over TLS, and with ACLs."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from dedupe_local.servers.kafka import HOST, EmbeddedBroker, free_ports
from tests.support.processes.brokers import LASTING_SESSION_SECONDS, START_SECONDS

USER = "worker"
PASSWORD = "s3cret-of-the-worker"  # noqa: S105 # of a broker that ends with its test


@dataclass(frozen=True)
class Certificate:
    """A self-signed certificate of an address: as Java key store, and as PEM."""

    keystore: Path
    pem: Path

    @classmethod
    def make(cls, directory: Path, host: str = HOST) -> "Certificate":
        """Make a certificate with the keytool of the JDK or JRE."""
        keytool = shutil.which("keytool")
        assert keytool, "keytool of the Java runtime is needed"
        keystore, pem = directory / "broker.p12", directory / "ca.pem"
        store = ["-alias", "broker", "-keystore", str(keystore), "-storepass", "changeit"]
        kind = ["-storetype", "PKCS12", "-keyalg", "EC", "-validity", "2"]
        name = ["-dname", f"CN={host}", "-ext", f"SAN=IP:{host}"]
        _run([keytool, "-genkeypair", *store, *kind, *name])
        _run([keytool, "-exportcert", "-rfc", *store, "-file", str(pem)])
        return cls(keystore, pem)


class SecuredBroker(EmbeddedBroker):
    """A broker with two listeners: an open one for the tests, and SASL over TLS.

    The user of the latter has full access to every resource without an ACL.
    """

    def __init__(self, data_dir: Path, certificate: Certificate, *, host: str = HOST) -> None:
        super().__init__(
            data_dir,
            host=host,
            session_seconds=LASTING_SESSION_SECONDS,
            start_seconds=START_SECONDS,
        )
        self._certificate = certificate
        self._secured_port = free_ports(1, host)[0]

    @property
    def secured_servers(self) -> str:
        """Return HOST:PORT of the listener with TLS and a password."""
        return f"{self.host}:{self._secured_port}"

    def client_properties(self, password: str) -> str:
        """Return the properties file of a client with that password."""
        return (
            "# what a Secret would hold\n"
            "security.protocol=SASL_SSL\n"
            "sasl.mechanisms=PLAIN\n"
            f"sasl.username={USER}\n"
            f"sasl.password={password}\n"
            f"ssl.ca.location={self._certificate.pem}\n"
        )

    def _configure(self, port: int, controller_port: int) -> Path:
        properties = super()._configure(port, controller_port)
        plain, secured = f"{self.host}:{port}", self.secured_servers
        login = (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'user_{USER}="{PASSWORD}";'
        )
        # Java uses the last value of a property that is set twice.
        with properties.open("a") as file:
            file.write(
                f"""
listeners=PLAINTEXT://{plain},SECURED://{secured},CONTROLLER://{self.host}:{controller_port}
advertised.listeners=PLAINTEXT://{plain},SECURED://{secured}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURED:SASL_SSL
sasl.enabled.mechanisms=PLAIN
listener.name.secured.plain.sasl.jaas.config={login}
listener.name.secured.ssl.keystore.type=PKCS12
listener.name.secured.ssl.keystore.location={self._certificate.keystore}
listener.name.secured.ssl.keystore.password=changeit
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
super.users=User:ANONYMOUS
"""
            )
        return properties


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)
