"""The expected results of the demo's options `--filter` and `--postgres`."""

import json
from datetime import UTC, datetime
from itertools import groupby, pairwise

import pytest

from examples.flights.counting import Counts, differing, truth
from examples.flights.data import FlightsMissing, Message, messages
from examples.flights.skipping import by_month_and_carrier

HOUR = datetime(2013, 1, 1, 10, tzinfo=UTC)


def flight(carrier: str, delay: int | None, hour: datetime = HOUR, number: int = 0) -> Message:
    value = {"carrier": carrier, "dep_delay": delay, "time_hour": hour.isoformat(), "month": 1}
    return Message(b"%d" % number, json.dumps(value).encode(), carrier.encode())


def test_the_year_is_in_order_to_the_day() -> None:
    """Although the months of the data set are in the order 1, 10, 11, 12, 2."""
    days = [
        (value["month"], value["day"])
        for value in (json.loads(each.value) for each in messages(60_000, 1))
    ]

    assert all(before <= after for before, after in pairwise(days))
    assert days[-1][0] == 3


def test_each_carriers_month_is_sent_at_once_and_nothing_is_lost() -> None:
    flights = list(messages(30_000, 1))
    sent = by_month_and_carrier(flights, "AA")

    runs = [run for run, _ in groupby((json.loads(f.value)["month"], f.carrier) for f in sent)]
    assert len(runs) == len(set(runs))
    assert [month for month, _ in runs] == sorted(month for month, _ in runs)
    assert sorted(sent) == sorted(flights)


def test_a_carrier_without_flights_is_refused_with_those_there_are() -> None:
    with pytest.raises(FlightsMissing, match=r"carrier ZZ: choose one of AA, UA\."):
        by_month_and_carrier([flight("UA", 1), flight("AA", 2)], "ZZ")


def test_the_truth_is_counted_by_hour_and_carrier_without_the_cancelled() -> None:
    later = HOUR.replace(hour=11)
    flights = [
        *(flight("AA", delay) for delay in (-3, None, 16, 15)),
        flight("AA", None, later),
        flight("UA", -7),
    ]

    assert truth(flights) == {
        (HOUR, "AA"): Counts(4, 3, 1, 28, 16, 0),
        (later, "AA"): Counts(1, 0, 0, None, None, 0),
        (HOUR, "UA"): Counts(1, 1, 0, -7, -7, 0),
    }


def test_rows_that_differ_are_wrong_missing_or_not_expected() -> None:
    expected = {(HOUR, carrier): Counts(flights=1) for carrier in ("AA", "UA", "DL")}
    found = {
        (HOUR, "AA"): Counts(flights=1),
        (HOUR, "UA"): Counts(flights=1, late=1),
        (HOUR, "ZZ"): Counts(flights=1),
    }

    assert differing(expected, expected) == 0
    assert differing(found, expected) == 3
