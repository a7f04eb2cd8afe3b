import re
from pathlib import Path

import pytest

from tests.lint import words
from tests.lint.words import Exemption, Phrase, Rules
from tests.unit.lint.tree import checkout, worker

RULES = Rules([Phrase("go(es)? on", '"continue"', "two meanings")], [])


def findings(root: Path, files: dict[str, str], rules: Rules = RULES) -> list[str]:
    return [str(finding) for finding in words.check(checkout(root, files), rules)]


def message(text: str) -> dict[str, str]:
    return worker(loop=f"raise SystemExit({text})")


@pytest.mark.parametrize(
    "opening", ["What", "Whether", "Where", "Which", "Who", "Whose", "How", "That", "Why"]
)
def test_no_docstring_opens_with_a_bare_relative_clause(tmp_path: Path, opening: str) -> None:
    source = f'import re\nclass Loop:\n    def run(self):\n        """{opening} it does."""\n'
    assert findings(tmp_path, worker(loop=source)) == [
        f'worker/dedupe_worker/loop.py:4: docstring opens with "{opening}": open with a verb or a noun'
    ]


def test_the_opening_on_a_second_line_counts(tmp_path: Path) -> None:
    (finding,) = findings(tmp_path, worker(loop='"""\nWhat the worker does.\n"""'))
    assert 'docstring opens with "What"' in finding


@pytest.mark.parametrize(
    "docstring",
    [
        "Return whether the store is open.",
        "Choose which volume a partition uses.",
        "One partition's window of ids.",
        "When the deadline is over, raise TimedOut.",
        "Thatcher's algorithm, with a WHERE clause.",
        "WHERE clause of the query.",
    ],
)
def test_plain_openings_pass(tmp_path: Path, docstring: str) -> None:
    assert findings(tmp_path, worker(loop=f'"""{docstring}"""')) == []


@pytest.mark.parametrize(
    "path", ["benchmarks/run.py", "examples/flights/demo.py", "tests/support/judge.py"]
)
def test_openings_count_outside_of_the_product_too(tmp_path: Path, path: str) -> None:
    (finding,) = findings(tmp_path, {path: '"""What it does."""'})
    assert finding.startswith(f"{path}:1: docstring opens")


def test_the_first_line_of_a_product_docstring_has_80_characters_at_most(tmp_path: Path) -> None:
    files = {
        **worker(fits=f'"""{"x" * 80}\n\n{"y" * 90}\n"""', long=f'def f():\n    """{"x" * 81}"""'),
        "benchmarks/run.py": f'"""{"x" * 81}"""',
    }
    assert findings(tmp_path, files) == [
        "worker/dedupe_worker/long.py:2: docstring's first line has 81 characters, more than 80"
    ]


@pytest.mark.parametrize(
    "text",
    [
        '"the worker goes on"',
        '"the worker goes "\n    "on after it"',
        'f"worker {name} goes on"',
        '"Goes on."',
    ],
)
def test_a_phrase_is_found_in_a_message(tmp_path: Path, text: str) -> None:
    (finding,) = findings(tmp_path, message(text))
    assert finding.startswith("worker/dedupe_worker/loop.py:1: ")
    assert re.search(r'"goes on": write "continue" \(two meanings\)$', finding, re.IGNORECASE)


def test_a_phrase_in_an_f_string_is_reported_once(tmp_path: Path) -> None:
    assert len(findings(tmp_path, message('f"it goes on with {count} records"'))) == 1


def test_a_phrase_in_a_docstring_is_reported_at_its_line(tmp_path: Path) -> None:
    source = 'def run():\n    """Run.\n\n    Then it goes\n    on.\n    """'
    (finding,) = findings(tmp_path, worker(loop=source))
    assert finding.startswith('worker/dedupe_worker/loop.py:4: "goes on"')


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("README.md", "# Title\nThe worker goes\non.\n"),
        ("docs/concepts.md", "# Title\n> The worker goes\n> on.\n"),
        ("charts/dedupestream/values.yaml", "a: 1\n# The worker goes\n# on.\n"),
        ("charts/dedupestream/templates/NOTES.txt", "\nThe worker goes on.\n"),
        ("charts/dedupestream/templates/prometheusrule.yaml", "x:\n  summary: It goes on\n"),
    ],
)
def test_a_phrase_is_found_in_documents_and_chart(tmp_path: Path, path: str, content: str) -> None:
    (finding,) = findings(tmp_path, {path: content})
    assert finding.startswith(f'{path}:2: "goes on"')


@pytest.mark.parametrize(
    "files",
    [
        worker(loop="goes_on = 1  # it goes on"),
        worker(loop="x = {'goes-on': 'goesXon'}"),
        message('"it forgoes one"'),
        message('"it goes", " on"'),
        message('f"goes {word} on"'),
        {"docs/reference.md": "<!-- generated from x, do not edit -->\nIt goes on.\n"},
        {"docs/decisions/0001.md": "It goes on.\n"},
        {"tests/support/judge.py": '"""Judge what goes on."""\nx = "it goes on"\n'},
        {"CHANGELOG.md": "It goes on.\n"},
    ],
)
def test_code_and_other_files_give_no_false_alarm(tmp_path: Path, files: dict[str, str]) -> None:
    assert findings(tmp_path, files) == []


def test_an_exemption_holds_for_its_phrase_in_its_files(tmp_path: Path) -> None:
    rules = Rules(RULES.phrases, [Exemption("docs/*.md", "go(es)? on", "a quotation")])
    files = {"docs/concepts.md": "It goes on.\n", "README.md": "It goes on.\n"}
    (finding,) = findings(tmp_path, files, rules)
    assert finding.startswith("README.md:1: ")


def test_an_exemption_that_nothing_needs_is_reported(tmp_path: Path) -> None:
    rules = Rules(RULES.phrases, [Exemption("docs/*.md", "go(es)? on", "a quotation")])
    (finding,) = findings(tmp_path, {"docs/concepts.md": "It continues.\n"}, rules)
    assert finding.endswith("exemption of 'go(es)? on' in docs/*.md is not needed")


def test_a_field_that_is_missing_or_misspelt_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "phrases.toml"
    path.write_text('[[phrase]]\npattern = "anew"\nwrite = "again"\n')
    with pytest.raises(TypeError, match="why"):
        words.load_rules(path)
    path.write_text('[[phrase]]\npattern = "anew"\nuse = "again"\nwhy = "archaic"\n')
    with pytest.raises(TypeError, match="use"):
        words.load_rules(path)
