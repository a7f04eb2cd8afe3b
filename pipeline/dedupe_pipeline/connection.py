"""The jobs' Kafka connection: one set of properties for librdkafka and Spark.

The properties file is the worker's, with librdkafka's names, so that one Secret serves all parts. Spark's connector
uses a Java client with other names, hence the translation. Only security properties are translated, because the rest of
such a file tunes the C client. What cannot be translated is given as options of Spark's Kafka source; see
`dedupe_pipeline.kafka_source_options`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.client import check_servers
from dedupe_kafka.cluster import Cluster
from dedupe_pipeline.errors import RequestRefused
from dedupe_pipeline.kafka_source_options import check_options

_ANSWER_SECONDS = 10.0
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_SAME_IN_JAVA = {
    "client.id": "client.id",
    "client.rack": "client.rack",
    "security.protocol": "security.protocol",
    "sasl.mechanism": "sasl.mechanism",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.key.password": "ssl.key.password",
    "ssl.keystore.location": "ssl.keystore.location",
    "ssl.keystore.password": "ssl.keystore.password",
}
# The first property of a pair holds the PEM text, the second the path of a file with it.
_PEM_TEXTS = {
    "ssl.truststore.certificates": ("ssl.ca.pem", "ssl.ca.location"),
    "ssl.keystore.certificate.chain": ("ssl.certificate.pem", "ssl.certificate.location"),
    "ssl.keystore.key": ("ssl.key.pem", "ssl.key.location"),
}
_TRANSLATED_SEPARATELY = {
    "sasl.username",
    "sasl.password",
    "ssl.endpoint.identification.algorithm",
    *(name for pair in _PEM_TEXTS.values() for name in pair),
}


@dataclass(frozen=True, kw_only=True)
class KafkaConnection:
    """A cluster and its client properties, which may be secret and are never shown.

    `source_options` are the user's options of Spark's Kafka source.
    """

    bootstrap_servers: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    source_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Raise InvalidConfig for bootstrap servers of another form than host:port."""
        check_servers(self.bootstrap_servers)
        object.__setattr__(self, "source_options", check_options(self.source_options))

    @classmethod
    def of(
        cls,
        stream: DedupeStream,
        bootstrap_servers: str | None = None,
        kafka_options: Mapping[str, str] | None = None,
        spark_kafka_options: Mapping[str, str] | None = None,
    ) -> "KafkaConnection":
        """Connect to the stream's cluster, unless another address is given.

        Raises RequestRefused for an option of Spark's Kafka source on which the results depend.
        """
        return cls(
            bootstrap_servers=bootstrap_servers or stream.spec.kafka.bootstrap_servers,
            properties=kafka_options or {},
            source_options=spark_kafka_options or {},
        )

    def cluster(self) -> Cluster:
        """Return the cluster, for requests that come before Spark's read."""
        return Cluster(self.bootstrap_servers, self.properties, timeout_seconds=_ANSWER_SECONDS)

    def spark_options(self) -> dict[str, str]:
        """Return the options for Spark's Kafka source; those of the user go first.

        Raises:
            RequestRefused: a security property has no counterpart in the Java client.
        """
        own = {
            group: any(name.startswith(f"kafka.{group}") for name in self.source_options)
            for group in ("sasl.", "ssl.")
        }
        translated = {
            name: value
            for name, value in self.properties.items()
            if not any(name.startswith(group) for group, given in own.items() if given)
        }
        java = dict(_java_properties(translated))
        return {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            **{f"kafka.{name}": value for name, value in java.items()},
            **self.source_options,
        }


def _java_properties(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in properties.items():
        if name in _SAME_IN_JAVA:
            yield _SAME_IN_JAVA[name], value
        elif name.startswith(("sasl.", "ssl.")) and name not in _TRANSLATED_SEPARATELY:
            raise RequestRefused(
                f"the Kafka property {name} has no counterpart in Spark's Kafka client; "
                "use SASL PLAIN or SCRAM, or TLS with PEM files, or give the Java client's own properties with "
                f"--spark-kafka-option kafka.{name.split('.')[0]}.…"
            )
    if "ssl.keystore.location" in properties:
        yield "ssl.keystore.type", "PKCS12"  # the only type that librdkafka reads
    yield from _login(properties)
    yield from _pem(properties)
    if algorithm := properties.get("ssl.endpoint.identification.algorithm"):
        yield "ssl.endpoint.identification.algorithm", "" if algorithm == "none" else algorithm


def _login(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if "sasl.username" not in properties:
        return
    mechanism = properties.get("sasl.mechanisms", properties.get("sasl.mechanism", ""))
    module = _LOGIN_MODULES.get(mechanism)
    if module is None:
        raise RequestRefused(
            f"sasl.mechanisms={mechanism} cannot log in with sasl.username; "
            f"use one of {', '.join(_LOGIN_MODULES)}"
        )
    user, password = (
        properties.get(name, "").replace("\\", "\\\\").replace('"', '\\"')
        for name in ("sasl.username", "sasl.password")
    )
    yield "sasl.jaas.config", f'{module} required username="{user}" password="{password}";'


def _pem(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for java_name, (text_name, path_name) in _PEM_TEXTS.items():
        text = properties.get(text_name)
        if path := properties.get(path_name):
            try:
                text = Path(path).read_text(encoding="ascii")
            except (OSError, UnicodeDecodeError) as error:
                raise RequestRefused(f"cannot read {path_name} {path}: {error}") from error
        if text is not None:
            yield java_name, text
            yield f"{java_name.rsplit('store.', maxsplit=1)[0]}store.type", "PEM"
