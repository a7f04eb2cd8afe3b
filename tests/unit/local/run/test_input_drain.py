"""The drain condition of routers: they are done, or have stalled."""

from dedupe_local.run.input_drain import InputDrain

STALL_SECONDS = 120.0


def drain(**ends: int) -> InputDrain:
    """A drain of partition 0 of each topic, which begins at 0 s."""
    return InputDrain({(topic, 0): end for topic, end in ends.items()}, STALL_SECONDS, now=0)


def test_partitions_are_left_until_their_end_is_committed() -> None:
    inputs = drain(a=10, b=5)
    assert inputs.left == [("a", 0), ("b", 0)]
    inputs.observe({("a", 0): 10, ("b", 0): 4}, now=1)
    assert inputs.left == [("b", 0)]
    assert inputs.missing() == ["input b, partition 0 is routed up to offset 4 of 5"]
    inputs.observe({("b", 0): 99}, now=2)
    assert (inputs.left, inputs.missing()) == ([], [])


def test_one_partition_may_wait_while_another_is_read() -> None:
    inputs = drain(a=1000, b=5)
    for now in range(0, 600, 100):
        inputs.observe({("a", 0): now, ("b", 0): 0}, now)
        assert not inputs.is_stalled(now + 119)
    assert inputs.is_stalled(500 + 120)


def test_what_comes_after_the_end_does_not_hide_a_stuck_partition() -> None:
    inputs = drain(a=10, b=5)
    for now in range(0, 130, 10):
        inputs.observe({("a", 0): 10 + now, ("b", 0): 0}, now)
    assert inputs.is_stalled(120)


def test_offsets_that_return_to_where_they_were_are_no_progress() -> None:
    inputs = drain(a=10)
    for now in range(0, 130, 10):
        inputs.observe({("a", 0): 3 + now // 10 % 2}, now)
    assert inputs.is_stalled(130)


def test_routers_that_wait_for_workers_stall_only_with_them() -> None:
    inputs = drain(a=10)
    inputs.wait_for_workers(100)
    assert not inputs.is_stalled(219)
    inputs.wait_for_workers(50)
    assert inputs.is_stalled(220)


def test_of_many_partitions_some_are_named() -> None:
    inputs = InputDrain({("a", number): 1 for number in range(12)}, STALL_SECONDS, now=0)
    assert len(inputs.missing()) == 11
    assert inputs.missing()[-1] == "and 2 more partitions of the input"
