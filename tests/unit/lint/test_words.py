import re
from pathlib import Path

import pytest

from tests.lint import words
from tests.lint.words import Exemption, Phrase, Rules
from tests.unit.lint.tree import checkout, worker

RULES = Rules([Phrase("go(es)? on", '"continue"', "two meanings")], [])


def findings(root: Path, files: dict[str, str], rules: Rules = RULES) -> list[str]:
    return [str(finding) for finding in words.check(checkout(root, files), rules)]


def test_no_docstring_opens_with_a_bare_relative_clause(tmp_path: Path) -> None:
    openings = ["What", "Whether", "Where", "Which", "Who", "Whose", "How", "That", "Why"]
    functions = "".join(f'def f_{each}():\n    """{each} it does."""\n' for each in openings)
    paths = ("benchmarks/run.py", "examples/flights/demo.py", "tests/support/judge.py")
    others = dict.fromkeys(paths, '"""\nWhat it does.\n"""')
    assert findings(tmp_path, {**worker(loop=functions), **others}) == [
        f'{place}: docstring opens with "{opening}": open with a verb or a noun'
        for place, opening in [
            *(
                (f"worker/dedupe_worker/loop.py:{2 * line}", each)
                for line, each in enumerate(openings, start=1)
            ),
            *((f"{path}:1", "What") for path in others),
        ]
    ]


def test_plain_openings_pass(tmp_path: Path) -> None:
    docstrings = [
        "Return whether the store is open.",
        "Choose which volume a partition uses.",
        "One partition's window of ids.",
        "When the deadline is over, raise TimedOut.",
        "Thatcher's algorithm, with a WHERE clause.",
        "WHERE clause of the query.",
    ]
    functions = (f'def f_{n}():\n    """{each}"""\n' for n, each in enumerate(docstrings))
    assert findings(tmp_path, worker(loop="".join(functions))) == []


def test_the_first_line_of_a_product_docstring_has_80_characters_at_most(tmp_path: Path) -> None:
    files = {
        **worker(fits=f'"""{"x" * 80}\n\n{"y" * 90}\n"""', long=f'def f():\n    """{"x" * 81}"""'),
        "benchmarks/run.py": f'"""{"x" * 81}"""',
    }
    assert findings(tmp_path, files) == [
        "worker/dedupe_worker/long.py:2: docstring's first line has 81 characters, more than 80"
    ]


def test_a_phrase_is_found_in_each_message_once(tmp_path: Path) -> None:
    texts = [
        '"the worker goes on"',
        '"the worker goes "\n    "on after it"',
        'f"worker {name} goes on"',
        '"Goes on."',
    ]
    files = worker(**{f"message_{n}": f"raise SystemExit({text})" for n, text in enumerate(texts)})
    told = findings(tmp_path, files)
    assert [each.partition(": ")[0] for each in told] == [
        f"worker/dedupe_worker/message_{number}.py:1" for number in range(len(texts))
    ]
    told_of = re.compile(r'"goes on": write "continue" \(two meanings\)$', re.IGNORECASE)
    assert all(told_of.search(each) for each in told)


def test_a_phrase_in_a_docstring_is_reported_at_its_line(tmp_path: Path) -> None:
    source = 'def run():\n    """Run.\n\n    Then it goes\n    on.\n    """'
    (finding,) = findings(tmp_path, worker(loop=source))
    assert finding.startswith('worker/dedupe_worker/loop.py:4: "goes on"')


def test_a_phrase_is_found_in_documents_and_chart(tmp_path: Path) -> None:
    files = {
        "README.md": "# Title\nThe worker goes\non.\n",
        "charts/dedupestream/templates/NOTES.txt": "\nThe worker goes on.\n",
        "charts/dedupestream/templates/prometheusrule.yaml": "x:\n  summary: It goes on\n",
        "charts/dedupestream/values.yaml": "a: 1\n# The worker goes\n# on.\n",
        "docs/concepts.md": "# Title\n> The worker goes\n> on.\n",
    }
    told = [each.partition(': "goes on"') for each in sorted(findings(tmp_path, files))]
    assert [place for place, found, _ in told if found] == [f"{path}:2" for path in files]


def test_code_and_other_files_give_no_false_alarm(tmp_path: Path) -> None:
    files = {
        **worker(
            comment="goes_on = 1  # it goes on",
            names="x = {'goes-on': 'goesXon'}",
            within='raise SystemExit("it forgoes one")',
            apart='raise SystemExit("it goes", " on")',
            between='raise SystemExit(f"goes {word} on")',
        ),
        "docs/reference.md": "<!-- generated from x, do not edit -->\nIt goes on.\n",
        "docs/decisions/0001.md": "It goes on.\n",
        "tests/support/judge.py": '"""Judge what goes on."""\nx = "it goes on"\n',
        "CHANGELOG.md": "It goes on.\n",
    }
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
