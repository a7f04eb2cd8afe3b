"""Both kinds get the same turns, and neither always the first."""

from benchmarks.harness.processes import Environment
from benchmarks.harness.turns import take_turns


def test_each_round_begins_with_the_other_kind_and_the_first_one_is_not_counted() -> None:
    calls: list[str] = []

    def run(environment: Environment) -> int:
        calls.append((environment or {})["KIND"])
        return len(calls)

    environments = {"old": {"KIND": "a"}, "new": {"KIND": "b"}}
    told: list[str] = []
    runs = take_turns("loops", environments, run, rounds=2, report=told.append)

    assert "".join(calls) == "baabba"
    assert runs == {"old": [3, 6], "new": [4, 5]}
    assert told[-1] == "round 2 of 2: loops, old"
