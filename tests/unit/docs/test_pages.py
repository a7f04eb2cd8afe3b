"""README stays short, each link of the documentation leads to a file and heading, and the glossary keeps its form."""

import re
from pathlib import Path

import pytest

from tests.unit.docs.markdown import anchors, links

ROOT = Path(__file__).parents[3]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
GLOSSARY = (ROOT / "docs/glossary.md").read_text()
TERMS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in GLOSSARY.splitlines()
    if line.startswith("| ") and not line.startswith("| term |")
]
"""Term, meaning, and the term of Kafka or Kubernetes."""


def test_readme_has_at_most_130_lines() -> None:
    assert len(README.read_text().splitlines()) <= 130


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_and_heading(page: Path) -> None:
    broken = []
    for path, anchor in links(page.read_text()):
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            broken.append(f"{path}#{anchor}")
    assert broken == []


def test_links_are_read_from_text_and_tables_but_not_from_code() -> None:
    text = "[a](b.md) | [c](#d) | [e](f.md#g)\n```\n[h](i.md)\n```\n[j](https://k) `[l](m.md)`\n"
    assert links(text) == [("b.md", ""), ("", "d"), ("f.md", "g")]


def test_anchors_are_those_of_github() -> None:
    text = "# The worker's HTTP calls\n## In `Spark`\n```\n# no heading\n```\n## In `Spark`\n"
    assert anchors(text) == {"the-workers-http-calls", "in-spark", "in-spark-1"}


def test_the_glossary_has_30_to_45_terms_in_alphabetical_order() -> None:
    terms = [row[0].lower() for row in TERMS]
    assert 30 <= len(terms) <= 45
    assert terms == sorted(set(terms))


def test_a_term_of_the_glossary_has_one_sentence_and_its_term_elsewhere() -> None:
    for term, meaning, elsewhere in TERMS:
        assert term[0].isupper(), term
        assert meaning[0].isupper(), term
        assert re.findall(r"[.!?](?=\s|$)", meaning) == ["."], term
        assert meaning.endswith("."), term
        assert elsewhere, term


@pytest.mark.parametrize(
    "page",
    ["README.md", "docs/concepts.md", "docs/kubernetes.md", "docs/guarantees.md", "docs/demo.md"],
)
def test_a_page_on_which_users_decide_states_the_same_partition_rule(page: str) -> None:
    text = " ".join((ROOT / page).read_text().split())
    assert re.search(r"must (therefore )?be in the same (input )?partition", text)
    assert re.search(r"[Pp]roducers must (key by the id|use the id as the key)", text)
    assert re.search(r"partition count must stay fixed|fixed partition count", text)


def test_readme_states_the_rule_beside_the_manifest() -> None:
    section = README.read_text().split("## Your own stream")[1].split("\n## ")[0]
    assert "Producers must key by the id" in section
