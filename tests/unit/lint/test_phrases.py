"""The phrase list of the repository, on sentences that it must find and on plain ones that it must leave alone."""

from tests.lint.words import load_rules

RULES = load_rules()

RIDDLES = [
    "the store is built anew",
    "the worker resumes by itself",
    "a topic beside the output",
    "run this again, it goes on where it was",
    "ids that were given up",
    "somebody deleted the topic",
    "look at their logs",
    "Namespace to look after",
    "a look failed; again in 4 s",
    "written to a topic of its own.",
    "needs a session of its own: connect directly",
    "a PostgreSQL of\nyour own, or another one",
    "Kafka can't be had",
    "force-deletes pods, their volumes let go",
    "it did not come to its end in time",
    "What is to be copied.",
    "the manifest is still to come",
    "the source can't be told",
    "only a new call is told of it",
    "What the worker says of itself",
    "What becomes of a duplicate.",
    "the last time that was seen to",
    "A worker ends again and again",
    "a stream at rest writes nothing",
    "running for as long as it takes",
    "it does not keep the others",
    "the credentials have no right to WRITE",
    "pip install 'dedupestream[kubectl]'",
    "pip install dedupestream",
]

PLAIN = [
    "the store is rebuilt",
    "besides, the besieged",
    "an ongoing upload continues",
    "Argonne Gokarting once",
    "given upper and lower bounds, forgive upstream",
    "an outlook, and everybody's looking glass",
    "A worker knows the ids of its own partition only.",
    "volumes encrypted with a key of your own account",
    "had it been read, Kafka had committed",
    "outlet gone",
    "comes to an agreement",
    "it is today, and was too becoming",
    "encryption at rest",
    "as long as the window",
    "keeps other ids",
    "the right to write",
    "pip install dist/dedupestream-0.1.0-py3-none-any.whl",
    "pip install 'dist/dedupestream-0.1.0-py3-none-any.whl[kubectl]'",
    "pip install dedupestream-0.1.0-py3-none-any.whl",
    "uv pip install --editable '.[kubectl]'",
    "it tells, says and said nothing",
]


def found(text: str) -> list[str]:
    return [phrase.pattern for phrase in RULES.phrases if phrase.expression.search(text)]


def test_riddles_are_found_and_plain_sentences_are_left_alone() -> None:
    assert [sentence for sentence in RIDDLES if not found(sentence)] == []
    assert {sentence: found(sentence) for sentence in PLAIN if found(sentence)} == {}


def test_each_phrase_is_found_by_a_sentence_here() -> None:
    used = {pattern for sentence in RIDDLES for pattern in found(sentence)}
    assert used == {phrase.pattern for phrase in RULES.phrases}


def test_each_exemption_is_of_a_phrase_and_has_a_reason() -> None:
    patterns = {phrase.pattern for phrase in RULES.phrases}
    assert all(each.pattern in patterns and each.reason for each in RULES.exemptions)
