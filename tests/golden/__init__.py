"""Small files in the formats that a release must keep; see README.md."""

from pathlib import Path
from typing import Final

FILES: Final = Path(__file__).with_name("files")
STREAMS: Final = Path(__file__).with_name("streams")
