"""Write paths for Java and for Kafka's properties, or refuse them by name.

The embedded broker uses it. Pure, but for the environment that it reads.
"""

import os
from pathlib import Path

from dedupe_local.errors import Refused


def property_value(text: str) -> str:
    """Write a value for a properties file of Java, which is ISO-8859-1.

    >>> property_value("/data/köln")
    '/data/k\\\\u00f6ln'
    """
    units = memoryview(text.encode("utf-16-le")).cast("H")
    return "".join(_escaped(unit) for unit in units)


def _escaped(unit: int) -> str:
    if not 0x20 <= unit < 0x7F:
        return f"\\u{unit:04x}"
    return "\\\\" if unit == ord("\\") else chr(unit)


def check_path(path: Path) -> None:
    """Raise Refused for a path that Java or Kafka would take for several, or not find."""
    text = str(path)
    problems = {
        "',', which separates Kafka's log directories": "," in text,
        "':', which separates the entries of Java's class path": ":" in text,
        "bytes that are not UTF-8": not_utf_8(text),
    }
    for problem, found in problems.items():
        if found:
            raise Refused(
                f"The embedded Kafka broker cannot use the directory {text!r}: it has {problem}; choose another with "
                "--state-dir."
            )


def not_utf_8(path: str) -> bool:
    """Return whether a path, as Python has it, has bytes that are not UTF-8."""
    return any("\ud800" <= each <= "\udfff" for each in path)


def environment() -> dict[str, str]:
    """Return the environment of a Java that reads paths as UTF-8, whatever the locale."""
    return {**os.environ, "LC_ALL": "C.UTF-8"}
