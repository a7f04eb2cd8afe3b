"""Numbers of records in logs that have lost their tails."""

from tests.simulation.lost_tails import Numbers
from tests.support.checker.topic_history import Written
from tests.unit.support.histories import record


def written(offset: int, epoch: int = 0) -> Written:
    return Written(record=record(offset, None, b"value"), epoch=epoch)


def lost(numbers: Numbers, offset: int, end: int, epoch: int) -> None:
    """Lose the records from an offset on, all of the epoch before."""
    loss = numbers.lose(offset, end=end, epoch=epoch, time_ms=7)
    loss.records = [written(each, epoch - 1) for each in range(offset, end)]


def test_other_records_at_the_same_offsets_come_after_the_lost_ones() -> None:
    numbers = Numbers()
    lost(numbers, 60, end=100, epoch=1)
    assert [numbers.number(each, 0) for each in (59, 60, 99)] == [59, 60, 99]
    assert [numbers.number(each, 1) for each in (59, 60, 99)] == [59, 100, 139]
    lost(numbers, 80, end=120, epoch=2)
    lost(numbers, 40, end=81, epoch=3)
    assert [numbers.number(each, 2) for each in (59, 60, 79, 80)] == [59, 100, 119, 160]
    assert [numbers.number(each, 3) for each in (39, 40)] == [39, 161]


def test_a_committed_offset_counts_in_the_log_that_was_read() -> None:
    numbers = Numbers()
    assert numbers.read(90, 90, epoch=0, now=0) == 90
    lost(numbers, 60, end=100, epoch=1)
    assert numbers.read(95, 95, epoch=0, now=1) == 95, "of a transaction that was open"
    assert numbers.read(60, 60, epoch=0, now=1) is None, "a loss is accepted"
    assert numbers.read(61, 61, epoch=1, now=1) == 101


def test_a_reader_that_had_come_to_the_loss_has_accepted_none() -> None:
    numbers = Numbers()
    lost(numbers, 60, end=100, epoch=1)
    assert numbers.read(60, 60, epoch=0, now=1) == 60
    assert numbers.read(61, 61, epoch=1, now=1) == 101


def test_the_offset_after_a_gap_is_of_the_log_as_it_is() -> None:
    numbers = Numbers()
    lost(numbers, 60, end=100, epoch=1)
    assert numbers.read(80, 50, epoch=0, now=1) == 120
    assert numbers.read(0, 0, epoch=-1, now=1) == 0


def test_what_was_lost_unread_is_left_out() -> None:
    numbers = Numbers()
    numbers.read(62, 62, epoch=0, now=0)
    lost(numbers, 60, end=64, epoch=1)
    numbers.read(62, 62, epoch=1, now=1)
    found = numbers.numbered([written(59), written(60, 1), written(61, 1)])
    assert [(each.record.offset, each.origin, each.lost_ms) for each in found] == [
        (59, "0:59", None),
        (60, "0:60", 7),
        (61, "0:61", 7),
        (64, "0:60", None),
        (65, "0:61", None),
    ]
