"""`python -m dedupe_worker`, and the command `dedupe-worker`."""

from dedupe_worker.allocator import use_jemalloc


def main() -> None:
    """Run the command line."""
    use_jemalloc()
    # After it, because importing all this is most of a start.
    from dedupe_worker.cli import main as command_line  # noqa: PLC0415

    command_line(prog_name="dedupe-worker")


if __name__ == "__main__":
    main()
