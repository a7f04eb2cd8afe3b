"""jemalloc in place of the C library's memory allocator, where the machine has it.

librdkafka allocates each record in one thread and frees it in another, which glibc's allocator answers with locks
that two threads contend for. With jemalloc a message costs a fifth less CPU time (see docs/performance.md). Which
allocator a process has is settled when it starts, so the process is started again, in place: it stays the same
process to whoever watches it.
"""

import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_LIBRARY: Final = "libjemalloc.so.2"
_PRELOAD: Final = "LD_PRELOAD"
_OPTIONS: Final = "MALLOC_CONF"
# Memory that is free goes back after a second rather than ten; but that of large fetches, of which the next ones are
# made, not at once, as jemalloc has it by default: with values of 4 KiB that costs a fifth of the throughput.
_DEFAULT_OPTIONS: Final = "oversize_threshold:0,dirty_decay_ms:1000,muzzy_decay_ms:0"


def find_jemalloc(root: Path = Path("/")) -> Path | None:
    """Where the system has jemalloc, if it does (Debian: libjemalloc2; Fedora, Alpine: jemalloc)."""
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    for directory in (f"usr/lib/{multiarch}", "usr/lib64", "usr/lib", "usr/local/lib"):
        library = root / directory / _LIBRARY
        if library.exists():
            return library
    return None


def with_jemalloc(environment: Mapping[str, str], library: Path | None) -> dict[str, str] | None:
    """The environment to start again with; None where there is nothing to change or the user has chosen."""
    if library is None or _PRELOAD in environment:
        return None
    return {_OPTIONS: _DEFAULT_OPTIONS, **environment, _PRELOAD: str(library)}


def use_jemalloc() -> None:
    """Start this process again with jemalloc, or go on if that is done or can't be. Call it before any thread."""
    environment = with_jemalloc(os.environ, find_jemalloc())
    if environment is not None:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606 # no shell is wanted
