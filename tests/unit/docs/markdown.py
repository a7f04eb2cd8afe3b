"""Links and anchors of a Markdown page, as GitHub makes them; used by the tests of the documentation."""

import re

_FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`(?!\])")


def links(text: str) -> list[tuple[str, str]]:
    """Return path and anchor of each relative link, "" where a link has none.

    Code is no text: what looks like a link in it is left out. Links to other sites are, too.
    """
    prose = _CODE.sub("", _FENCE.sub("", text))
    found = re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)", prose)
    return [(path, anchor) for path, anchor in found]


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings.

    A heading that stands again has the anchor of the first with "-1" and so on.
    """
    seen: dict[str, int] = {}
    found = set()
    for heading in re.findall(r"^#+ (.+)$", _FENCE.sub("", text), re.MULTILINE):
        anchor = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        times = seen.setdefault(anchor, 0)
        seen[anchor] += 1
        found.add(f"{anchor}-{times}" if times else anchor)
    return found
