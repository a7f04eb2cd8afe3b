"""Results that were never measured."""

from benchmarks.scale.result import Ageing, Filled, Run, Rung, Scale, Start

MIB = 1 << 20


def filled(**changes: object) -> Filled:
    values: dict[str, object] = {
        "ids": 1_000_000,
        "known": 1_000_000,
        "repeats": 0,
        "seconds": 2.0,
        "cpu_seconds": 2.0,
        "lookup_seconds": 0.5,
        "write_seconds": 0.4,
        "longest_write_seconds": 0.05,
        "written": 96_000_000,
        "bytes": 28_000_000,
        "peak_bytes": 30_000_000,
        "keys": 1_000_000,
        "generations": 3,
        "drops": 0,
    }
    return Filled.model_validate(values | changes)


def start(**changes: object) -> Start:
    values: dict[str, object] = {
        "reconciling_seconds": 2.0,
        "ready_seconds": 2.5,
        "cpu_seconds": 2.0,
        "reason": "Tail",
        "records": 100_000,
        "reconcile_seconds": 0.5,
    }
    return Start.model_validate(values | changes)


def run(**changes: object) -> Run:
    values: dict[str, object] = {
        "messages": 850_000,
        "seconds": 5.0,
        "cpu_seconds": 5.0,
        "stages": {"lookup": 0.7},
        "resident": 220 * MIB,
        "anonymous": 200 * MIB,
        "peak": 230 * MIB,
        "group_peak": 300 * MIB,
    }
    return Run.model_validate(values | changes)


def rung(keys: int, **changes: object) -> Rung:
    values: dict[str, object] = {
        "keys": keys,
        "filled": filled(keys=keys, bytes=28 * keys),
        "start": start(),
        "run": run(anonymous=200 * MIB + 2 * keys),
        "restart": start(),
        "tail": start(),
    }
    return Rung.model_validate(values | changes)


def scale(*rungs: Rung, **changes: object) -> Scale:
    values: dict[str, object] = {
        "limit_bytes": 1024 * MIB,
        "messages": 1_000_000,
        "rungs": list(rungs or (rung(1_000_000), rung(100_000_000))),
        "ageing": Ageing(max_bytes=31_000_000, unaged=filled(), aged=filled(drops=2)),
        "rebuild": start(reason="NewStore", records=1_000_000, reconcile_seconds=4.0),
    }
    return Scale.model_validate(values | changes)
