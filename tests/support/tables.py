"""Tables of the documentation, which tests compare with what is there."""

from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def rows(page: str, section: str) -> list[list[str]]:
    """Return the cells of the first table of a page's section, without its heading."""
    text = (DOCS / page).read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    lines = text.split("\n|---")[1].splitlines()[1:]
    table = lines[: next((i for i, line in enumerate(lines) if not line.startswith("|")), None)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
