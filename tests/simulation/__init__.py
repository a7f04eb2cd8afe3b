"""The real worker on a simulated Kafka, disk and clock (docs/decisions/0024-simulation.md).

    seed ── schedule/generate ──> Schedule: settings and steps
                                     │
    world.World ──────────────────────┤ performs each step at its moment, decides who runs, drains the input
      outside, machines               │ what steps do to topics and clock, and to volumes and processes
        process, fiber                │ the real Supervisor in a thread that runs only while it is resumed
        clock, disk, kafka/, sizes    │ what it runs on instead of the machine
                                     │
    recorder.Recorder ────────────────┤ topics, offsets, outside events, statuses; nothing of the worker's inside
    judge ────────────────────────────┘ the independent checker (tests/support/checker)
    outcome, figures, __main__          run one seed, count, run many; schedule/shrink makes a failure small

Invariant: a seed has one history, in every process. So nothing here reads the machine's clock, iterates over a set
whose order matters, or uses chance that is not the seed's.
"""
