"""Divide a batch whose rows exceed what Spark's driver accepts.

The job calls it. The offsets of a batch can be divided anywhere, because `increments` depends only on the records and
on the progress before them. A part ends before some offset of one partition; earlier partitions are in it as a whole,
later ones not at all.
"""

from collections.abc import Mapping

from dedupe_pipeline.errors import PipelineError
from dedupe_pipeline.jobs.aggregate.increments import Progress

_LIMIT = "spark.driver.maxResultSize"


def offsets_of(progress: Mapping[int, Progress], ends: Mapping[int, int]) -> int:
    """Return the number of offsets from the progress to before `ends`.

    >>> offsets_of({0: Progress(next_offset=4)}, {0: 10, 1: 3})
    9
    """
    return sum(max(0, end - _start(progress, number)) for number, end in ends.items())


def first_part(
    progress: Mapping[int, Progress], ends: Mapping[int, int], most: int | None
) -> dict[int, int]:
    """Return the ends of a part that begins at the progress.

    It has at most `most` offsets; the ends are `ends` if all fits.

    >>> first_part({0: Progress(next_offset=4)}, {0: 10, 1: 30, 2: 5}, 8)
    {0: 10, 1: 2, 2: 0}
    """
    if most is None:
        return dict(ends)
    part = {}
    for number, end in sorted(ends.items()):
        start = _start(progress, number)
        part[number] = min(end, start + most)
        most -= max(0, part[number] - start)
    return part


def smaller(error: Exception, size: int) -> int:
    """Return the offsets to try after a part of `size` offsets has failed.

    Raises:
        PipelineError: no smaller part is possible.
        Exception: the error, if it is another one.
    """
    if _LIMIT not in str(error):
        raise error
    if size <= 1:
        raise PipelineError(
            f"the rows of one record exceed {_LIMIT}: raise it with --conf {_LIMIT}=2g"
        ) from error
    return size // 2


def _start(progress: Mapping[int, Progress], number: int) -> int:
    return progress[number].next_offset if number in progress else 0
