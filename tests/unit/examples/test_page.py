"""The demo's page: it is self-contained, and describes its plots in words."""

from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

from rich.console import Console

from examples.flights.outcome import Outcome
from examples.flights.page import html_page
from examples.flights.summary import show
from tests.unit.examples.outcomes import COUNTING, SKIPPING, outcome, scattered


class Page(HTMLParser):
    """Collects a page's references, its ids, its pictures and its words."""

    def __init__(self, shown: Outcome) -> None:
        super().__init__()
        self.text = html_page(shown)
        self.references: list[str] = []
        self.ids: list[str] = []
        self.pictures = 0
        self.words = ""
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.pictures += tag == "svg"
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.references += [
            value or "" for name, value in attrs if name in ("src", "href", "xlink:href")
        ]

    def handle_data(self, data: str) -> None:
        self.words += " ".join(data.split()) + " "


def test_the_page_refers_to_the_audit_beside_it_and_to_nothing_else_outside() -> None:
    page = Page(outcome(skipping=SKIPPING, counting=COUNTING))

    outside = [name for name in page.references if not name.startswith("#")]
    assert outside == ["audit.html"]
    assert "url(http" not in page.text
    assert len(page.ids) == len(set(page.ids))


def test_three_pictures_have_words_that_say_what_was_measured() -> None:
    page = Page(outcome())

    assert page.pictures == 3
    assert "Worker 0 of 1 is killed with SIGKILL after 2.0 s" in page.words
    assert "1.0 s later (dotted) its successor is ready" in page.words
    assert "half within 0 ms, 90 % within 1.5 s" in page.words


def test_the_verdict_says_what_is_wrong() -> None:
    assert "Each message exactly once" in Page(outcome()).words
    spoiled = Page(outcome(lost=3)).words
    assert "Each message exactly once" not in spoiled
    assert "3 records are lost." in spoiled


def test_page_and_terminal_show_the_variants_only_if_they_ran() -> None:
    plain, both = outcome(), outcome(skipping=SKIPPING, counting=COUNTING)
    for shown in (Page(plain).words, printed(plain)):
        assert "chunks" not in shown
        assert "PostgreSQL" not in shown
    for shown in (Page(both).words, printed(both)):
        assert "9 of 10" in shown
        assert "fetched 80% less" in shown
        assert "killed at 40 of 100 records" in shown
        assert "all 7 rows are equal to the totals of the flights themselves" in shown


def test_page_and_terminal_of_a_scattered_run_say_what_passed_and_what_to_do() -> None:
    spoiled = scattered(lost=3)
    for shown, wrong in (
        (Page(scattered()).words, Page(spoiled).words),
        (printed(scattered()), printed(spoiled)),
    ):
        assert "Not exactly once, as this run is meant to show: 2 duplicates passed" in shown
        assert "2, of which 2 have their other copy in another partition" in shown
        assert "Producers must send equal ids to the same partition" in shown
        assert "Each message exactly once" not in shown
        assert "3 records are lost." in wrong
        assert "as this run is meant to show" not in wrong


def test_the_page_of_a_scattered_run_claims_nothing_of_the_duplicates_that_passed() -> None:
    page = Page(scattered())

    assert "duplicates pass" in page.text[: page.text.index("</h1>")]
    assert "it has the 3 that the workers recognised" in page.words
    assert "No duplicate in the partition of its original of a record from before" in page.words
    assert 'class="verdict good"' not in page.text
    assert 'class="verdict good"' in Page(outcome()).text


def printed(shown: Outcome) -> str:
    text = StringIO()
    show(shown, Path("index.html"), Console(file=text, width=80))
    return " ".join(text.getvalue().split())


def test_rows_that_are_not_what_they_should_be_are_not_called_right() -> None:
    wrong = COUNTING.model_copy(update={"wrong_rows": 9})

    assert "9 rows are wrong or missing" in Page(outcome(counting=wrong)).words
    assert "are equal to the totals" not in Page(outcome(counting=wrong)).words


def test_where_skipping_took_longer_the_page_does_not_hide_it() -> None:
    plain, plain_skipping = SKIPPING.reads
    spark, spark_skipping = (
        read.model_copy(update={"reader": "Spark", "seconds": seconds})
        for read, seconds in ((plain, 3), (plain_skipping, 4))
    )
    slow, quick = (
        SKIPPING.model_copy(update={"reads": [plain, plain_skipping, *both]})
        for both in ((spark, spark_skipping), (spark_skipping, spark))
    )

    assert "took longer than fetching all" in Page(outcome(skipping=slow)).words
    assert "took longer" not in Page(outcome(skipping=quick)).words
