"""Texts of the cluster control no terminal."""

import json

import pytest

from dedupe_kubectl.plain_text import without_controls

CONTROLS = {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0))} - {"\n", "\t"}


@pytest.mark.parametrize("escaped", [True, False])
def test_each_control_character_is_replaced_and_nothing_else(*, escaped: bool) -> None:
    text = "".join(map(chr, range(0x250))) + "\\u001b\\\\u001b\\r\u202f😀"
    found = json.loads(without_controls(json.dumps(text, ensure_ascii=escaped).encode()))
    assert found == "".join("\ufffd" if each in CONTROLS else each for each in text)
