import pytest

from dedupe_pipeline.errors import PipelineError
from dedupe_pipeline.jobs.aggregate.postgres_connection import Postgres


def test_properties_win_over_the_url() -> None:
    found = Postgres.of("postgresql://me@db:5433/shop?sslmode=require", {"user": "you"})

    assert found.parameters == {
        "user": "you",
        "host": "db",
        "port": "5433",
        "dbname": "shop",
        "sslmode": "require",
    }


def test_without_either_libpq_looks_in_its_environment() -> None:
    assert Postgres.of(None).parameters == {}


@pytest.mark.parametrize(
    "url",
    ["postgresql://me:s3cret@db/shop", "host=db password=s3cret", "host=db sslpassword=s3cret"],
)
def test_a_password_in_the_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(
        PipelineError, match=r"--postgres-url has a (ssl)?password .*PGPASSFILE"
    ) as told:
        Postgres.of(url)

    assert "s3cret" not in str(told.value)


@pytest.mark.parametrize(
    ("url", "properties"),
    [("postgresql://[s3cret", {}), ("passwort=s3cret", {}), (None, {"passwort": "s3cret"})],
)
def test_what_libpq_does_not_know_is_refused_and_not_repeated(
    url: str | None, properties: dict[str, str]
) -> None:
    with pytest.raises(PipelineError, match="not one that libpq understands") as told:
        Postgres.of(url, properties)

    assert "s3cret" not in str(told.value)


def test_secrets_are_not_shown() -> None:
    assert "s3cret" not in repr(Postgres.of(None, {"password": "s3cret"}))
