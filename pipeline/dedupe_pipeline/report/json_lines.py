"""Make JSON lines of all that a process writes to stderr.

The option --log-format json starts it. Invariant: once it is started, each line on the stderr of this process and of
its children is one JSON object, with the keys `timestamp`, `level` and `event` of the workers' logs. Lines of Java, of
other libraries and of Python's tracebacks are the `event` of an object with `"logger": "stderr"`.
"""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from dedupe_pipeline.report.stderr_lines import StderrLines, is_of_a_start

_ERROR: Final = "Error:"  # click's, before the message about a wrong option


class JsonLines:
    """The JSON log of this process; from its construction on it owns stderr."""

    def __init__(self) -> None:
        self._stderr = StderrLines(_wrapped)
        logging.captureWarnings(capture=True)
        logging.basicConfig(handlers=[_Handler(self)], level=logging.WARNING, force=True)

    def write(self, level: str, event: str, fields: Mapping[str, Any]) -> None:
        """Write one object."""
        self._stderr.write(_record(level, event, fields))


class _Handler(logging.Handler):
    """Writes the records of Python's logging."""

    def __init__(self, lines: JsonLines) -> None:
        super().__init__()
        self._lines = lines
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, with its traceback in the event."""
        self._lines.write(record.levelname.lower(), self.format(record), {"logger": record.name})


def _record(level: str, event: str, fields: Mapping[str, Any]) -> str:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    record = {"timestamp": now, "level": level, "event": event, **fields}
    return json.dumps(record, default=str, ensure_ascii=False)


def _wrapped(line: str) -> str | None:
    """Return a line as an object; an object stays as it is."""
    if not line or is_of_a_start(line):
        return None
    if _is_object(line):
        return line
    level = "error" if line.startswith(_ERROR) else "info"
    return _record(level, line.removeprefix(_ERROR).strip(), {"logger": "stderr"})


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
