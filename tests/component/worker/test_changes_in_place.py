"""A running stream can change its window in place, but not its ids."""

from collections.abc import Callable

import yaml

from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.worker import WindowStatus
from tests.support.crashes.aftermath import (
    logged,
    reconciled,
)
from tests.support.processes.processes import Workers
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import retries

CreateStream = Callable[..., TestStream]

SEED = 20261122
RECORDS = 2_000


def change(stream: TestStream, **fields: object) -> None:
    """Edit the manifest, as a user would."""
    document = yaml.safe_load(stream.manifest.read_text())
    document["spec"] |= fields
    stream.manifest.write_text(yaml.safe_dump(document))


def is_empty(window: WindowStatus) -> bool:
    """Return whether the status shows a window without ids."""
    return window.generations > 0 and window.keys == 0


def test_a_shorter_window_forgets_and_a_longer_one_remembers_from_then_on(
    streams: CreateStream, workers: Workers
) -> None:
    stream = streams()
    traffic = list(retries(SEED, RECORDS))
    ids = len({message.key for message in traffic})
    stream.send(traffic)
    worker = workers.start(stream)
    worker.wait_until_caught_up()
    assert worker.sigterm() == 0

    change(stream, store={"window": {"maxAge": "2s", "alertBelow": "0s"}})
    worker = workers.start(stream)
    worker.wait_until(lambda: logged(worker, "caught up"), "it is reconciled")
    worker.wait_until(lambda: is_empty(worker.status().window), "it has forgotten all ids")
    start = reconciled(worker)
    assert (start["reason"], start["records"]) == ("Tail", 0), "the store is the same"
    assert worker.sigterm() == 0

    change(stream, store={"window": {"maxAge": "28d"}})
    stream.send([*traffic, *traffic])
    worker = workers.start(stream)
    worker.wait_until_caught_up()
    assert len(stream.clean()) == 2 * ids
    worker.wait_until(lambda: worker.status().window.keys == ids, "it remembers all ids")


def test_ids_of_another_kind_are_refused_and_the_way_is_named(
    streams: CreateStream, workers: Workers
) -> None:
    stream = streams()
    stream.send(retries(SEED, 10))
    worker = workers.start(stream)
    worker.wait_until_caught_up()
    assert worker.sigterm() == 0
    sent = len(stream.clean())

    change(stream, id={"from": "Content"})
    refused = workers.start(stream)
    assert refused.wait_until_ended() == ExitCode.CONFIG
    assert "dedupe bootstrap" in refused.log_path.read_text()

    change(stream, id={"from": "Key"})
    stream.send(retries(SEED, 10))
    workers.start(stream).wait_until_caught_up()
    assert len(stream.clean()) == sent
