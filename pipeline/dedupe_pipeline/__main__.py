"""`python -m dedupe_pipeline`, the same as `dedupe-pipeline`."""

from dedupe_pipeline.cli import main

main()
