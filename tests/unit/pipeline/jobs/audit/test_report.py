"""The result on a terminal of 80 columns, and on a page that needs nothing but itself."""

import re
from html.parser import HTMLParser
from io import StringIO

from rich.console import Console

from dedupe_crds.spec.repartition import RepartitionBy
from dedupe_crds.spec.topics import Mode
from dedupe_pipeline.jobs.audit.report import html_page, print_result
from dedupe_pipeline.jobs.audit.result import AuditResult
from tests.unit.pipeline.jobs.audit.results import partition, result

CLEAN = result(partition(0), partition(1))
SPOILED = result(partition(0), partition(1, lost=2))
SCATTERED = result(
    partition(0),
    partition(1, duplicated=7, duplicated_in_another_partition=4, repeats_in_another_partition=4),
)


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


def test_removed_messages_with_another_content_are_shown_and_no_defect() -> None:
    other = result(partition(0), partition(1, removed_with_other_content=3))

    assert other.is_clean
    for shown in (printed(other), html_page(other)):
        assert "200 input records; 3 removed with another content" in " ".join(shown.split())
        assert "3 of the 10 removed records have another key or value" in " ".join(shown.split())
    assert "another content" not in printed(CLEAN)
    assert "another content" not in html_page(CLEAN)


def test_the_verdict_says_how_much_was_judged() -> None:
    some = result(partition(0), partition(1, pending=60))
    nothing = result(partition(0, pending=100))

    assert "judged 200 of 200 input records" in " ".join(printed(CLEAN).split())
    for shown in (printed(some), html_page(some)):
        assert "judged 140 of 200 input records, 60 are pending" in " ".join(shown.split())
    for shown in (printed(nothing), html_page(nothing)):
        assert "nothing was judged" in shown.lower()
        assert "each message exactly once" not in shown.lower()


def test_what_is_no_defect_is_counted_in_words() -> None:
    shown = result(partition(0, before_input=12), partition(1, beyond_window=3))

    assert shown.is_clean
    for text in (printed(shown), html_page(shown)):
        assert "12 of the output are from before the input begins; 3 repeats passed" in " ".join(
            text.split()
        )
    assert "no defects" not in printed(CLEAN)


def test_duplicates_in_another_partition_are_told_apart_with_what_to_do() -> None:
    page = " ".join(html_page(SCATTERED).split())
    for shown in (" ".join(printed(SCATTERED).split()), page.replace("&lt;", "<")):
        assert "7 defects" in shown
        assert "4 of 7 duplicated records have their other copy in another partition" in shown
        assert "Producers must send equal ids to the same partition: use the id as the key" in shown
        assert "docs/concepts.md" in shown
    assert (
        "duplicated in another partition: partition 1, raw offset 18, clean offset 5; "
        "other copy in partition 2, clean offset 7"
    ) in " ".join(printed(SCATTERED).split())
    assert "<td>duplicated in another partition</td>" in page
    assert "<td>partition 2, offset 7</td>" in page
    for shown in (printed(SPOILED), html_page(SPOILED)):
        assert "have their other copy" not in shown
        assert "Producers must" not in shown


def test_a_stream_that_only_observes_is_not_called_exactly_once() -> None:
    observed = result(partition(0, repeats_in_another_partition=3), mode=Mode.OBSERVE)
    for shown in (printed(observed), html_page(observed)):
        assert "very copy of each message" in shown
        assert "exactly once" not in shown
        assert "3 records of orders repeat an id that is in another partition too" in " ".join(
            shown.split()
        )


def test_raw_records_of_a_repartition_that_came_out_nowhere_have_their_own_row() -> None:
    found = result(
        partition(0), partition(None, clean_records=0, lost=1), repartitioned_by=RepartitionBy.ID
    )

    text = " ".join(printed(found).split())
    assert "lost: raw orders-eu/3 offset 17, not in the output" in text
    assert "raw records count where their id came out, and in the row “none” if it did not" in text
    assert re.search(r"^ +none ", printed(found), re.MULTILINE)
    page = html_page(found)
    assert "orders-eu/3: 17" in page
    assert ">none</td>" in page
    assert "in the row “none”" in page
    for shown in (printed(CLEAN), html_page(CLEAN)):
        assert "came out" not in shown


def test_late_messages_are_shown_where_there_is_a_topic_for_them() -> None:
    found = result(partition(0, late=3), late_topic="too-late")

    assert "; 3 late, in too-late" in " ".join(printed(found).split())
    assert "<th>late</th>" in html_page(found)
    assert "late" not in printed(CLEAN)
    assert "<th>late</th>" not in html_page(CLEAN)


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
