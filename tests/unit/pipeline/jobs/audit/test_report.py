"""The result on a terminal of 80 columns, and on a page that needs nothing but itself."""

import re
from html.parser import HTMLParser
from io import StringIO

from rich.console import Console

from dedupe_pipeline.jobs.audit.report import html_page, print_result
from dedupe_pipeline.jobs.audit.result import AuditResult
from tests.unit.pipeline.jobs.audit.results import partition, result

CLEAN = result(partition(0), partition(1))
SPOILED = result(partition(0), partition(1, lost=2))


def printed(shown: AuditResult) -> str:
    text = StringIO()
    print_result(shown, Console(file=text, width=80))
    return text.getvalue()


class Page(HTMLParser):
    """Collects what a page refers to, and the ids in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(
        self,
        tag: str,  # noqa: ARG002 # of any tag
        attrs: list[tuple[str, str | None]],
    ) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.references += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_terminal_shows_the_verdict_and_where_to_look() -> None:
    assert "each message exactly once" in printed(CLEAN)
    assert "2 defects" in printed(SPOILED)
    assert "lost: partition 1, raw offset 17, clean offset none" in printed(SPOILED)


def test_no_column_of_the_table_is_cut_off_in_80_columns() -> None:
    millions = result(*(partition(n, raw_records=1_234_567) for n in range(3)))

    assert "…" not in printed(millions)
    assert "reordered" in printed(millions)


def test_units_of_time_fit_what_they_tell() -> None:
    assert "half within 1 ms, 90 % within 10 ms" in printed(CLEAN)
    assert "all within 1.5 min" in " ".join(printed(CLEAN).split())


def test_the_page_refers_to_nothing_outside_itself() -> None:
    page = Page(html_page(SPOILED))

    assert all(reference.startswith("#") for reference in page.references)
    assert len(page.ids) == len(set(page.ids))


def test_the_page_has_four_plots_in_the_colours_of_the_page() -> None:
    text = html_page(CLEAN)

    assert text.count("<svg") == 4
    assert "var(--clean)" in text
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"#01020\d", text)


def test_names_are_escaped_in_the_page() -> None:
    assert "orders&lt;clean&gt;" in html_page(CLEAN)
    assert "orders<clean>" not in html_page(CLEAN)


def test_an_audit_of_empty_topics_can_be_shown() -> None:
    empty = result(partition(0, raw_records=0, repeats=0), empty=True)

    assert "<svg" not in html_page(empty)
    assert "0.00%" in printed(empty)
