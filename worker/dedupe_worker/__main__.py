"""`python -m dedupe_worker`."""

from dedupe_worker.cli import main

if __name__ == "__main__":
    main(prog_name="dedupe-worker")
