"""Decisions of a growth: by examples of each step, and in any order of what can happen around it."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dedupe_crds.status.growth import GrowthStatus, GrowthStep
from dedupe_growth.decide import Act, Decision, HandOver, Observed, WriteMarks, decide
from dedupe_growth.entries import (
    Cuts,
    Direct,
    Done,
    Entry,
    HandedOver,
    Listed,
    Prepare,
    RouterStart,
    Switch,
)
from dedupe_growth.epochs import NO_EPOCH, Epochs, epochs_of
from dedupe_growth.mark import Mark
from dedupe_kafka.offset_metadata import Cut
from dedupe_kafka.offsets import Place

INPUTS = {"a": 2}
A0, A1 = ("a", 0), ("a", 1)
BEGUN: list[Entry] = [Switch(epoch=0, partitions=2, inputs=INPUTS), Done(epoch=0)]
PREPARED: list[Entry] = [*BEGUN, Prepare(epoch=1, partitions=4)]
SWITCHED: list[Entry] = [*PREPARED, Switch(epoch=1, partitions=4, inputs=INPUTS)]
CUT: list[Entry] = [*SWITCHED, Cuts(epoch=1, cuts={0: 10, 1: 11})]
GROWN: list[Entry] = [*CUT, Done(epoch=1)]
ADOPTED = {A0: 1, A1: 1}
PASSED = {0: Cut(1, 10), 1: Cut(1, 11)}
NEARLY = 100_000


def seen(
    wanted: int = 4,
    inputs: Mapping[str, int] = INPUTS,
    *,
    former: Mapping[str, int] | None = None,
    adopted: Mapping[Place, int] | None = None,
    passed: Mapping[int, Cut] | None = None,
    unlearnt: Mapping[int, int] | None = None,
) -> Observed:
    return Observed(
        inputs=inputs,
        wanted=wanted,
        former=former or {},
        adopted=adopted or {},
        passed=passed or {},
        unlearnt=unlearnt or {},
    )


def after(entries: list[Entry], there: Observed) -> Decision:
    return decide(epochs_of(entries), there)


def shown(entries: list[Entry], there: Observed) -> GrowthStatus:
    status = after(entries, there).status
    assert status is not None
    return status


# -- the start of a stream ---------------------------------------------------------------------------


def test_a_new_stream_begins_with_the_partitions_and_inputs_that_there_are() -> None:
    first = Switch(epoch=0, partitions=3, inputs=INPUTS)
    assert after([], seen(3)) == Decision(first)
    assert after([first], seen(3)) == Decision(Done(epoch=0))
    assert after([first, Done(epoch=0)], seen(3)) == Decision()


DIRECT = Direct(epoch=0, partitions=2, topic="a", topic_id="In1")
STARTS = {0: RouterStart(offset=7, topic_id="In1"), 1: RouterStart(offset=8, topic_id="In1")}
OVER = {0: HandOver(STARTS[0], 10), 1: HandOver(STARTS[1], 11)}
CHANGING: list[Entry] = [DIRECT, Prepare(epoch=1, partitions=3)]
HANDED_OVER: list[Entry] = [*CHANGING, HandedOver(epoch=1, cuts={0: 10, 1: 11}, starts=STARTS)]
ROUTED: list[Entry] = [*HANDED_OVER, Switch(epoch=1, partitions=3, inputs=INPUTS)]


def test_a_stream_that_ran_without_routers_begins_with_that() -> None:
    assert decide(epochs_of([]), replace(seen(3), direct=DIRECT)) == Decision(DIRECT)
    assert after([DIRECT], seen(3)) == Decision(CHANGING[1])


@pytest.mark.parametrize("count", [0, 1])
def test_routers_wait_until_every_worker_has_handed_over(count: int) -> None:
    there = replace(seen(3), handed_over=dict(list(OVER.items())[:count]))
    decision = after(CHANGING, there)
    assert decision.act is None
    assert decision.status == GrowthStatus(
        epoch=1,
        before=2,
        partitions=3,
        adds_routers=True,
        step=GrowthStep.HANDING_OVER,
        done=count,
        total=2,
        waiting_for=["0", "1"][count:],
    )


def test_what_was_handed_over_is_in_the_log_before_routers_begin() -> None:
    assert after(CHANGING, replace(seen(3), handed_over=OVER)).act == HANDED_OVER[-1]
    late = {**OVER, 0: HandOver(RouterStart(offset=99, topic_id="In1"), 99)}
    assert after(HANDED_OVER, replace(seen(5), handed_over=late)).act == ROUTED[-1]
    assert after(HANDED_OVER, replace(seen(3), handed_over={})).act == ROUTED[-1], "offsets expire"


def test_a_change_is_done_once_every_worker_has_learnt() -> None:
    """Also the workers that there were before: each has ids in other stores."""
    two = {0: Cut(1, 10), 2: Cut(1, 0)}
    decision = after(ROUTED, seen(3, passed=two))
    assert decision.act is None
    assert decision.status is not None
    status = decision.status
    assert (status.step, status.done, status.total) == (GrowthStep.READING_REST, 2, 3)
    assert status.waiting_for == ["1"]
    assert after(ROUTED, seen(3, passed={**two, 1: Cut(1, 11)})).act == Done(epoch=1)


def test_a_growth_follows_a_change() -> None:
    done: list[Entry] = [*ROUTED, Done(epoch=1)]
    assert shown(done, seen(3)).line == "Change to routers from 2 to 3 partitions: Done, 3 of 3."
    assert after(done, seen(4)).act == Prepare(epoch=2, partitions=4)
    grows = [*done, Prepare(epoch=2, partitions=4)]
    assert shown(grows, seen(4)).line.startswith("Growth from 3 to 4 partitions: Learning")
    assert after(grows, seen(4, unlearnt={3: 0})).act == Switch(
        epoch=2, partitions=4, inputs=INPUTS
    )


@pytest.mark.parametrize("entries", [BEGUN, PREPARED, SWITCHED, CUT, GROWN])
def test_a_new_input_is_listed_at_every_step(entries: list[Entry]) -> None:
    there = seen(4, {"a": 3, "b": 1}, adopted=ADOPTED, passed=PASSED)
    epoch = epochs_of(entries).switched
    wanted = Listed(epoch=epoch, inputs={"a": 3, "b": 1})
    assert after(entries, there).act == wanted
    assert not isinstance(after([*entries, wanted], there).act, Listed), "once"


@pytest.mark.parametrize("inputs", [{}, {"a": 1}])
def test_an_input_that_is_gone_is_no_new_one(inputs: dict[str, int]) -> None:
    assert after(BEGUN, seen(2, inputs)).act is None


@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_fewer_partitions_than_there_are_change_nothing(wanted: int) -> None:
    assert after(BEGUN, seen(wanted)) == Decision()


# -- one growth --------------------------------------------------------------------------------------


def test_a_growth_begins_with_workers_for_the_new_partitions() -> None:
    assert after(BEGUN, seen(4)).act == Prepare(epoch=1, partitions=4)


@pytest.mark.parametrize(
    ("unlearnt", "behind"),
    [
        ({}, ["2", "3"]),
        ({2: 0}, ["3"]),
        ({2: NEARLY, 3: NEARLY + 1}, ["3"]),
        ({0: 0, 1: 0}, ["2", "3"]),
    ],
)
def test_routers_do_not_switch_before_all_new_workers_have_nearly_learnt(
    unlearnt: dict[int, int], behind: list[str]
) -> None:
    there = seen(unlearnt=unlearnt)
    assert after(PREPARED, there).act is None
    status = shown(PREPARED, there)
    assert (status.step, status.waiting_for) == (GrowthStep.LEARNING, behind)
    assert (status.done, status.total) == (2 - len(behind), 2)


def test_routers_switch_once_little_is_left_to_learn() -> None:
    found = after(PREPARED, seen(unlearnt={2: NEARLY, 3: 0}))
    assert found.act == Switch(epoch=1, partitions=4, inputs=INPUTS)


def test_a_topic_that_is_not_seen_at_the_switch_is_waited_for_when_it_is_back() -> None:
    """It was deleted, or may not be described for a while: a router that is behind may go on routing it."""
    hidden = after(PREPARED, seen(4, {}, unlearnt={2: 0, 3: 0})).act
    assert isinstance(hidden, Switch)
    there = seen(4, INPUTS, adopted={A0: 1, A1: 0})
    assert after([*PREPARED, hidden], there).act is None
    assert shown([*PREPARED, hidden], there).waiting_for == ["a/1"]


@pytest.mark.parametrize(
    ("adopted", "waiting"),
    [
        ({}, ["a/0", "a/1"]),
        ({A0: 1}, ["a/1"]),
        ({A0: 1, A1: 0}, ["a/1"]),
        ({A0: 0, A1: 2}, ["a/0"]),
    ],
)
def test_no_mark_is_written_while_an_input_partition_may_be_routed_by_the_old_epoch(
    adopted: dict[Place, int], waiting: list[str]
) -> None:
    there = seen(adopted=adopted)
    assert after(SWITCHED, there).act is None
    status = shown(SWITCHED, there)
    assert (status.step, status.waiting_for) == (GrowthStep.WAITING_FOR_ROUTERS, waiting)
    assert (status.done, status.total) == (2 - len(waiting), 2)


def test_inputs_that_were_listed_after_the_switch_are_not_waited_for() -> None:
    entries = [*SWITCHED, Listed(epoch=1, inputs={"a": 3, "b": 1})]
    there = seen(4, {"a": 3, "b": 1}, adopted=ADOPTED)
    assert after(entries, there).act == WriteMarks(Mark(1, 4), (0, 1))


@pytest.mark.parametrize("inputs", [{}, {"a": 1}])
def test_an_input_that_is_only_hidden_is_waited_for(inputs: dict[str, int]) -> None:
    """Its offsets are there, and those of a topic that was deleted are not."""
    there = seen(4, inputs, adopted={A0: 1, A1: 0})
    assert after(SWITCHED, there).act is None
    assert shown(SWITCHED, there).waiting_for == ["a/1"]


@pytest.mark.parametrize("adopted", [{A0: 1}, {A0: 1, A1: 0}])
def test_a_former_input_is_waited_for_while_it_exists(adopted: dict[Place, int]) -> None:
    """A router of the former manifest may go on routing it, also a partition that has no offset yet."""
    there = seen(4, {"b": 1}, former=INPUTS, adopted=adopted)
    entries = [*SWITCHED, Listed(epoch=1, inputs={"b": 1})]
    assert after(entries, there).act is None
    assert shown(entries, there).waiting_for == ["a/1"]


@pytest.mark.parametrize(("inputs", "adopted"), [({"a": 1}, {A0: 1}), ({}, {})])
def test_of_an_input_that_was_deleted_nothing_is_left_to_route(
    inputs: dict[str, int], adopted: dict[Place, int]
) -> None:
    assert after(SWITCHED, seen(4, inputs, adopted=adopted)).act == WriteMarks(Mark(1, 4), (0, 1))


@pytest.mark.parametrize(
    ("passed", "late"),
    [
        ({}, (0, 1)),
        ({0: Cut(1, 10)}, (1,)),
        ({0: Cut(0, 10), 1: Cut(1, 11)}, (0,)),
        ({2: Cut(1, 5), 3: Cut(1, 5)}, (0, 1)),
    ],
)
def test_marks_go_to_the_old_partitions_whose_worker_has_not_met_one(
    passed: dict[int, Cut], late: tuple[int, ...]
) -> None:
    there = seen(adopted=ADOPTED, passed=passed)
    assert after(SWITCHED, there).act == WriteMarks(Mark(1, 4), late)
    status = shown(SWITCHED, there)
    assert status.step is GrowthStep.WAITING_FOR_WORKERS
    assert (status.waiting_for, status.done, status.total) == (
        [str(each) for each in late],
        2 - len(late),
        2,
    )


def test_the_cuts_are_what_the_old_workers_have_committed() -> None:
    there = seen(adopted=ADOPTED, passed={**PASSED, 2: Cut(1, 99)})
    assert after(SWITCHED, there).act == Cuts(epoch=1, cuts={0: 10, 1: 11})


@pytest.mark.parametrize(
    ("passed", "behind"),
    [({}, ["2", "3"]), ({3: Cut(1, 0)}, ["2"]), ({2: Cut(1, 0), 3: Cut(0, 0)}, ["3"])],
)
def test_a_growth_is_not_done_before_the_new_workers_have_read_up_to_the_cuts(
    passed: dict[int, Cut], behind: list[str]
) -> None:
    there = seen(adopted=ADOPTED, passed={**PASSED, **passed})
    assert after(CUT, there).act is None
    status = shown(CUT, there)
    assert (status.step, status.waiting_for) == (GrowthStep.READING_REST, behind)
    assert (status.done, status.total) == (2 - len(behind), 2)


def test_a_growth_is_done_once_the_new_workers_run() -> None:
    there = seen(adopted=ADOPTED, passed={**PASSED, 2: Cut(1, 0), 3: Cut(1, 0)})
    assert after(CUT, there).act == Done(epoch=1)
    found = after(GROWN, there)
    assert found.act is None
    assert found.status == GrowthStatus(
        epoch=1, before=2, partitions=4, step=GrowthStep.DONE, done=2, total=2
    )


@pytest.mark.parametrize("entries", [PREPARED, SWITCHED, CUT])
def test_a_second_growth_waits_for_the_first(entries: list[Entry]) -> None:
    there = seen(9)
    assert after(entries, there) == after(entries, seen(4))
    assert after(GROWN, there).act == Prepare(epoch=2, partitions=9)


def test_the_status_shows_the_newest_growth_and_ten_of_what_it_waits_for() -> None:
    second: list[Entry] = [*GROWN, Prepare(epoch=2, partitions=30)]
    status = shown(second, seen(30))
    assert (status.epoch, status.before, status.partitions) == (2, 4, 30)
    assert status.waiting_for == [str(each) for each in range(4, 14)]
    assert (status.done, status.total) == (0, 26)


# -- any order ---------------------------------------------------------------------------------------


class AnyGrowth(RuleBasedStateMachine):
    """A stream whose manifest, inputs, routers and workers do what they may in any order.

    A router may be behind: it routes by any switched epoch that lists the partition, and never by an older one than the
    partition's committed offset has. A worker may be killed: it shows nothing.
    """

    @initialize(wanted=st.integers(1, 3))
    def begin(self, wanted: int) -> None:
        self.entries: list[Entry] = []
        self.exist: dict[str, int] = {"a": 1}
        self.named = {"a", "b"}
        self.seen = seen(wanted, self.exist)
        self.marks: set[tuple[int, int]] = set()

    @property
    def epochs(self) -> Epochs:
        return epochs_of(self.entries)

    # -- the world -----------------------------------------------------------------------------------

    @rule(more=st.integers(-2, 3))
    def change_the_manifest(self, more: int) -> None:
        self.seen = replace(self.seen, wanted=max(1, self.seen.wanted + more))

    @rule(topic=st.sampled_from("ab"))
    def add_an_input_partition(self, topic: str) -> None:
        self.exist[topic] = self.exist.get(topic, 0) + 1

    @rule()
    def look_at_inputs(self) -> None:
        listed = self.epochs.listed.keys() - self.named
        self.seen = replace(
            self.seen,
            inputs={each: self.exist[each] for each in self.exist if each in self.named},
            former={each: self.exist[each] for each in self.exist if each in listed},
        )

    @rule(named=st.sampled_from(["a", "b", "ab"]))
    def name_inputs(self, named: str) -> None:
        """Change the manifest; a router of the former one may go on by it."""
        self.named = set(named)
        self.look_at_inputs()

    @rule(topic=st.sampled_from("ab"))
    def hide_an_input(self, topic: str) -> None:
        """Hide one that has offsets: any other can't be told from one that was deleted."""
        places = {(topic, each) for each in range(self.exist.get(topic, 0))}
        if places <= self.seen.adopted.keys():
            inputs = {name: count for name, count in self.seen.inputs.items() if name != topic}
            self.seen = replace(self.seen, inputs=inputs)

    @rule(data=st.data())
    def route(self, data: st.DataObject) -> None:
        epochs = self.epochs
        choices = [
            ((topic, each), epoch)
            for epoch, listed in epochs.inputs.items()
            for topic, count in listed.items()
            for each in range(count)
            if self.seen.adopted.get((topic, each), 0) <= epoch <= epochs.switched
        ]
        if not choices:
            return
        place, epoch = data.draw(st.sampled_from(choices))
        marked = max((each for each, _ in self.marks), default=0)
        assert epoch >= marked, "records of an old epoch come after the mark of a new one"
        self.seen = replace(self.seen, adopted={**self.seen.adopted, place: epoch})

    @rule()
    def follow(self) -> None:
        """All routers see the newest epoch, and commit it with each partition that it lists."""
        listed = self.epochs.inputs.get(self.epochs.switched, {})
        places = [(topic, each) for topic, count in listed.items() for each in range(count)]
        adopted = dict.fromkeys(places, self.epochs.switched)
        self.seen = replace(self.seen, adopted={**self.seen.adopted, **adopted})

    @rule(partition=st.integers(0, 9), left=st.sampled_from([None, 0, NEARLY, NEARLY + 1]))
    def learn(self, partition: int, left: int | None) -> None:
        unlearnt = {each: n for each, n in self.seen.unlearnt.items() if each != partition}
        if left is not None:
            unlearnt[partition] = left
        self.seen = replace(self.seen, unlearnt=unlearnt)

    @rule()
    def learn_all(self) -> None:
        self.seen = replace(self.seen, unlearnt=dict.fromkeys(range(99), 0))

    @rule(data=st.data(), position=st.integers(0, 9))
    def pass_a_mark(self, data: st.DataObject, position: int) -> None:
        if self.marks:
            epoch, partition = data.draw(st.sampled_from(sorted(self.marks)))
            self.commit(partition, Cut(epoch, position))

    @rule(data=st.data(), position=st.integers(0, 9))
    def read_the_rest(self, data: st.DataObject, position: int) -> None:
        epochs = self.epochs
        if epochs.switched in epochs.cuts:
            partition = data.draw(st.sampled_from(epochs.added(epochs.switched)))
            self.commit(partition, Cut(epochs.switched, position))

    @rule()
    def work(self) -> None:
        """All workers do what they can."""
        epochs = self.epochs
        for epoch, partition in sorted(self.marks):
            self.commit(partition, Cut(epoch, 7))
        if epochs.switched in epochs.cuts:
            for partition in epochs.added(epochs.switched):
                self.commit(partition, Cut(epochs.switched, 7))

    def commit(self, partition: int, cut: Cut) -> None:
        before = self.seen.passed.get(partition)
        if before is None or before.epoch < cut.epoch:
            self.seen = replace(self.seen, passed={**self.seen.passed, partition: cut})

    # -- the controller ------------------------------------------------------------------------------

    @rule(times=st.integers(1, 3))
    def act(self, times: int) -> None:
        for _ in range(times):
            self.do(decide(self.epochs, self.seen).act)

    def do(self, act: Act | None) -> None:
        match act:
            case None:
                return
            case WriteMarks(mark=mark, partitions=partitions):
                self.check_marks(mark, partitions)
                self.marks |= {(mark.epoch, each) for each in partitions}
            case entry:
                before = self.epochs
                self.check_entry(before, entry)
                self.entries.append(entry)
                self.check_forward(before, self.epochs)

    def check_marks(self, mark: Mark, partitions: tuple[int, ...]) -> None:
        epochs, epoch = self.epochs, mark.epoch
        assert mark == (epochs.switched, epochs.partitions[epochs.switched])
        assert set(partitions) <= set(epochs.before(epoch))
        assert partitions
        for listed in (epochs.inputs[epoch - 1], epochs.switch_inputs[epoch]):
            for topic, count in listed.items():
                for each in range(min(count, self.exist.get(topic, 0))):
                    assert self.seen.adopted.get((topic, each), NO_EPOCH) >= epoch

    def check_entry(self, epochs: Epochs, entry: Entry) -> None:
        epoch = entry.epoch
        match entry:
            case Prepare(partitions=partitions):
                assert not epochs.grows, "a growth is under way"
                assert (epoch, partitions) == (epochs.done + 1, self.seen.wanted)
                assert partitions > epochs.workers
            case Switch(partitions=partitions) if epoch:
                assert (epoch, partitions) == (epochs.prepared, epochs.workers)
                assert epochs.done == epoch - 1
                for each in epochs.added(epoch):
                    assert self.seen.unlearnt[each] <= NEARLY
            case Cuts(cuts=cuts):
                passed = {each: self.seen.passed[each] for each in epochs.before(epoch)}
                assert all(cut.epoch == epoch for cut in passed.values())
                assert cuts == {each: cut.position for each, cut in passed.items()}
            case Done() if epoch:
                assert epoch in epochs.cuts
                assert all(self.seen.passed[each].epoch == epoch for each in epochs.added(epoch))

    def check_forward(self, before: Epochs, now: Epochs) -> None:
        assert before.prepared <= now.prepared
        assert before.switched <= now.switched
        assert before.done <= now.done
        assert now.done <= now.switched <= now.prepared <= now.done + 1
        assert replace(now, entries=before.entries) != before, "the entry says nothing new"
        for each in range(1, now.prepared + 1):
            assert now.partitions[each - 1] < now.partitions[each]

    @invariant()
    def a_decision_changes_nothing(self) -> None:
        assert decide(self.epochs, self.seen) == decide(self.epochs, self.seen)

    def teardown(self) -> None:
        """Whatever has happened: once all do their part, the growth ends, and then nothing is left to do."""
        if not hasattr(self, "entries"):
            return
        self.look_at_inputs()
        for _ in range(20):
            self.do_their_part()
            self.act(times=1)
        self.do_their_part()
        epochs = self.epochs
        assert epochs.done == epochs.prepared
        assert epochs.workers >= self.seen.wanted
        assert decide(epochs, self.seen).act is None

    def do_their_part(self) -> None:
        self.follow()
        self.learn_all()
        self.work()


TestAnyGrowth = AnyGrowth.TestCase
TestAnyGrowth.settings = settings(max_examples=40, stateful_step_count=30)
