"""A broker that lets nobody in without TLS and a password, and can tell who may do what."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from dedupe_local.servers.kafka import HOST, EmbeddedBroker, free_ports

USER = "worker"
PASSWORD = "s3cret-of-the-worker"  # noqa: S105 # of a broker that lives as long as its test


@dataclass(frozen=True)
class Certificate:
    """A self-signed certificate of one address: as Java's key store, and as PEM for clients."""

    keystore: Path
    pem: Path

    @classmethod
    def make(cls, directory: Path, host: str = HOST) -> "Certificate":
        """Make one with the JDK's or JRE's keytool."""
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
    """Beside the open listener, where the tests may do anything, one that speaks SASL over TLS.

    Its user may do anything with what no ACL speaks of.
    """

    def __init__(self, data_dir: Path, certificate: Certificate, *, host: str = HOST) -> None:
        super().__init__(data_dir, host=host)
        self._certificate = certificate
        self._secured_port = free_ports(1, host)[0]

    @property
    def secured_servers(self) -> str:
        """HOST:PORT of the listener that asks for TLS and a password."""
        return f"{self.host}:{self._secured_port}"

    def client_properties(self, password: str) -> str:
        """The properties file of a client with that password."""
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
        # Of a property that is there twice, Java takes the last.
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
