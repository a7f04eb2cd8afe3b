"""`python -m dedupe_local` is the `dedupe` command."""

from dedupe_local.cli import main

main()
