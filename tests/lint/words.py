"""Check that docstrings open plainly and that no text has a phrase of phrases.toml.

The glossary in docs/ says which word to use for what; this check holds the part of it that a pattern can find.
"""

import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from tests.lint.checkout import Checkout, Finding, Module
from tests.lint.texts import Text, docstrings, user_texts

PHRASES = Path(__file__).with_name("phrases.toml")
SUMMARY_CHARACTERS = 80
_RELATIVE = re.compile(r"(What|Whether|Where|Which|Who|Whose|How|That|Why)\b")
_DOCUMENTED = ("benchmarks", "examples", "tests/support")
_GAP = r"\s+(?:[#>]\s+)?"  # between two words, also where a comment or a quotation wraps


class Phrase(NamedTuple):
    """A phrase to avoid: a regular expression, the plain words, and the reason."""

    pattern: str
    write: str
    why: str

    @property
    def expression(self) -> re.Pattern[str]:
        """Return what matches it as whole words, in any case, across line breaks."""
        return re.compile(rf"(?<!\w)(?:{self.pattern.replace(' ', _GAP)})(?!\w)", re.IGNORECASE)


class Exemption(NamedTuple):
    """A phrase that is right in the files that a path pattern matches, with the reason."""

    path: str
    pattern: str
    reason: str


class Rules(NamedTuple):
    """The content of phrases.toml."""

    phrases: list[Phrase]
    exemptions: list[Exemption]


def load_rules(path: Path = PHRASES) -> Rules:
    """Read the phrases and exemptions. Raises TypeError for a field that is missing or unknown."""
    content = tomllib.loads(path.read_text())
    phrases = [Phrase(**phrase) for phrase in content["phrase"]]
    return Rules(phrases, [Exemption(**each) for each in content.get("exemption", [])])


def check(checkout: Checkout, rules: Rules | None = None) -> Iterator[Finding]:
    """Yield each docstring that opens badly and each phrase to avoid, then the exemptions that nothing needs."""
    for module in checkout.product:
        yield from _openings(module)
        yield from _long_summaries(module)
    for module in checkout.others(*_DOCUMENTED):
        yield from _openings(module)
    yield from _phrases(checkout, rules or load_rules())


def opens_with_relative_clause(docstring: str) -> bool:
    """Return whether a docstring begins like "What is read" instead of with a noun or a verb."""
    return _RELATIVE.match(docstring.strip()) is not None


def _openings(module: Module) -> Iterator[Finding]:
    for text in docstrings(module):
        if opens_with_relative_clause(text.content):
            word = text.content.split(maxsplit=1)[0]
            yield text.finding(0, f'docstring opens with "{word}": open with a verb or a noun')


def _long_summaries(module: Module) -> Iterator[Finding]:
    for text in docstrings(module):
        summary = text.content.strip().partition("\n")[0]
        if len(summary) > SUMMARY_CHARACTERS:
            message = f"docstring's first line has {len(summary)} characters, more than {SUMMARY_CHARACTERS}"
            yield text.finding(0, message)


def _phrases(checkout: Checkout, rules: Rules) -> Iterator[Finding]:
    needed: set[Exemption] = set()
    for text in user_texts(checkout):
        for phrase, match in _matches(text, rules.phrases):
            exemption = _exemption(text, phrase, rules.exemptions)
            if exemption:
                needed.add(exemption)
                continue
            found = re.sub(_GAP, " ", match.group())
            yield text.finding(match.start(), f'"{found}": write {phrase.write} ({phrase.why})')
    for exemption in rules.exemptions:
        if exemption not in needed:
            message = f"exemption of {exemption.pattern!r} in {exemption.path} is not needed"
            yield Finding("tests", Path("tests/lint/phrases.toml"), 1, message)


def _matches(text: Text, phrases: list[Phrase]) -> Iterator[tuple[Phrase, re.Match[str]]]:
    for phrase in phrases:
        for match in phrase.expression.finditer(text.content):
            yield phrase, match


def _exemption(text: Text, phrase: Phrase, exemptions: list[Exemption]) -> Exemption | None:
    for each in exemptions:
        if each.pattern == phrase.pattern and fnmatch(str(text.path), each.path):
            return each
    return None
