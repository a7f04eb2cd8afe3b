"""`python -m dedupe_router`, and the command `dedupe-router`."""

from dedupe_router.cli import main

if __name__ == "__main__":
    main(prog_name="dedupe-router")
