"""Options of Spark's Kafka source pass as they are, but for those on which results depend."""

import pytest

from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.errors import RequestRefused
from dedupe_pipeline.kafka_source_options import check_options

SECRET = "s3cret"  # noqa: S105 # nobody's


def connection(properties: dict[str, str], options: dict[str, str]) -> KafkaConnection:
    return KafkaConnection(
        bootstrap_servers="kafka:9092", properties=properties, source_options=options
    )


def test_names_are_those_of_the_documentation_whatever_their_case() -> None:
    given = {"MINPARTITIONS": "64", "kafka.Fetch.Min.Bytes": "1", "groupIdPrefix": "audit"}

    assert check_options(given) == {
        "minPartitions": "64",
        "kafka.fetch.min.bytes": "1",
        "groupIdPrefix": "audit",
    }


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("kafka.isolation.level", "aborted transactions would be read"),
        ("Kafka.Isolation.Level", "aborted transactions would be read"),
        ("subscribe", "the manifest names the topics"),
        ("assign", "the manifest names the topics"),
        ("failOnDataLoss", "would be missed without an error"),
        ("includeHeaders", "headers are a column"),
        ("kafka.group.id", "groupIdPrefix"),
        ("minPartition", "unknown; known are .*minPartitions"),
    ],
)
def test_an_option_on_which_results_depend_is_refused_with_the_reason(
    name: str, reason: str
) -> None:
    with pytest.raises(RequestRefused, match=rf"{name} is .*{reason}") as refused:
        check_options({name: SECRET})
    assert SECRET not in str(refused.value)


def test_an_option_that_is_given_twice_is_refused() -> None:
    with pytest.raises(RequestRefused, match="minPartitions is given twice"):
        check_options({"minPartitions": "1", "minpartitions": "2"})


def test_a_login_of_the_java_client_replaces_that_of_the_properties() -> None:
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.secret": SECRET,
        "ssl.key.password": SECRET,
    }
    options = {"kafka.sasl.mechanism": "OAUTHBEARER", "kafka.sasl.jaas.config": SECRET}
    given = connection(properties, options)

    assert given.spark_options() == {
        "kafka.bootstrap.servers": "kafka:9092",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.key.password": SECRET,
        **options,
    }
    assert SECRET not in repr(given)


def test_a_login_that_only_the_c_client_knows_is_refused_and_names_the_option() -> None:
    properties = {"sasl.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}

    with pytest.raises(RequestRefused, match=r"--spark-kafka-option kafka\.sasl\.…"):
        connection(properties, {}).spark_options()
