"""`python -m dedupe_operator`."""

from dedupe_operator.cli import main

if __name__ == "__main__":
    main(prog_name="dedupe-operator")
