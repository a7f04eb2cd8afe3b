"""The headers of a batch are those that each of its records would get alone."""

import numpy as np

from dedupe_worker.dedup.side_headers import ORIGINAL_HEADER, late_headers, repeat_headers
from dedupe_worker.origins import Origins
from dedupe_worker.values import UNKNOWN_OWNER, Decoded, encode_owner


def decoded(*owners: bytes) -> Decoded:
    return Decoded.of(owners)


def test_places_have_the_names_that_their_numbers_stand_for() -> None:
    origins = Origins("orders:0+8,returns:0+8")
    headers = late_headers(decoded(encode_owner(3, 7), encode_owner(9, 5)), 1, origins)
    assert [dict(each)["dedupe-position"] for each in headers] == [b"orders:3:7", b"returns:1:5"]


def test_what_is_not_known_is_said_of_that_record_alone() -> None:
    own = decoded(encode_owner(0, 1), encode_owner(0, 2), encode_owner(0, 3))
    original = decoded(encode_owner(0, 0), UNKNOWN_OWNER, encode_owner(8, 0))
    headers = repeat_headers(own, original, Origins("orders:0+8"))
    found = [dict(each)[ORIGINAL_HEADER] for each in headers]
    assert found == [b"orders:0:0", b"unknown", b"unknown"]


def test_the_last_partition_and_offset_are_no_unknown_owner() -> None:
    last = encode_owner(2**16 - 1, 2**48 - 2)
    [headers] = repeat_headers(decoded(last), decoded(last), None)
    assert dict(headers)[ORIGINAL_HEADER] == b"65535:%d" % (2**48 - 2)


def test_an_age_is_added_only_if_both_times_are_known() -> None:
    early, late = b"\0\0\0\0\x03\xe8", b"\0\0\0\0\x05\xdc"
    own = decoded(*(encode_owner(0, offset) + late for offset in (1, 2)))
    original = decoded(encode_owner(0, 0) + early, encode_owner(0, 0))
    ages = [dict(each).get("dedupe-age-ms") for each in repeat_headers(own, original, None)]
    assert ages == [b"500", None]
    assert np.array_equal(original.timed, [True, False])
