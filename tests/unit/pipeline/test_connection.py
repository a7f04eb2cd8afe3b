"""One properties file serves librdkafka and, translated, Spark's Java client."""

from pathlib import Path

import pytest

from dedupe_kafka.client import read_properties
from dedupe_kafka.errors import InvalidConfig
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.errors import PipelineError


def spark_options(**properties: str) -> dict[str, str]:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return KafkaConnection(bootstrap_servers="kafka:9092", properties=named).spark_options()


def test_without_properties_only_the_brokers_are_given() -> None:
    assert spark_options() == {"kafka.bootstrap.servers": "kafka:9092"}


def test_a_login_becomes_a_jaas_line_whatever_the_password_holds() -> None:
    options = spark_options(
        security_protocol="SASL_SSL",
        sasl_mechanisms="SCRAM-SHA-512",
        sasl_username="orders",
        sasl_password='p"w\\d=;',  # noqa: S106 # nobody's
    )

    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert options["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="orders" password="p\\"w\\\\d=;";'
    )


def test_pem_files_become_their_text(tmp_path: Path) -> None:
    for name in ("ca", "certificate", "key"):
        (tmp_path / name).write_text(f"the {name}")

    options = spark_options(
        ssl_ca_location=str(tmp_path / "ca"),
        ssl_certificate_location=str(tmp_path / "certificate"),
        ssl_key_location=str(tmp_path / "key"),
        ssl_endpoint_identification_algorithm="none",
    )

    assert {name.removeprefix("kafka.ssl."): value for name, value in options.items()} == {
        "kafka.bootstrap.servers": "kafka:9092",
        "truststore.type": "PEM",
        "truststore.certificates": "the ca",
        "keystore.type": "PEM",
        "keystore.certificate.chain": "the certificate",
        "keystore.key": "the key",
        "endpoint.identification.algorithm": "",
    }


def test_what_tunes_the_c_client_is_not_passed_on() -> None:
    assert list(spark_options(queued_max_messages_kbytes="1024", debug="all")) == [
        "kafka.bootstrap.servers"
    ]


@pytest.mark.parametrize(
    "name", ["sasl_oauthbearer_config", "ssl_cipher_suites", "sasl_kerberos_keytab"]
)
def test_a_security_property_without_counterpart_is_refused_by_name_only(name: str) -> None:
    with pytest.raises(PipelineError, match=name.replace("_", ".")) as refused:
        spark_options(**{name: "s3cret"})

    assert "s3cret" not in str(refused.value)


def test_a_login_needs_a_mechanism_that_takes_a_password() -> None:
    with pytest.raises(PipelineError, match=r"sasl\.mechanisms=GSSAPI"):
        spark_options(sasl_mechanisms="GSSAPI", sasl_username="orders")


def test_a_connection_does_not_show_its_secrets() -> None:
    connection = KafkaConnection(
        bootstrap_servers="kafka:9092", properties={"sasl.password": "s3cret"}
    )

    assert "s3cret" not in repr(connection)


def test_a_properties_file_may_have_comments_and_values_with_equals_signs(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# ours\n\nsasl.username = me\nsasl.password=a=b\n")

    assert read_properties(file) == {"sasl.username": "me", "sasl.password": "a=b"}


def test_a_broken_line_is_told_by_its_number_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("a=b\ns3cret\n")

    with pytest.raises(InvalidConfig, match="line 2") as broken:
        read_properties(file)

    assert "s3cret" not in str(broken.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    # Without "Kafka": --postgres-properties is read by the same function.
    with pytest.raises(InvalidConfig, match=r"^properties file .*none\.properties: No such file"):
        read_properties(tmp_path / "none.properties", reserved=frozenset())
