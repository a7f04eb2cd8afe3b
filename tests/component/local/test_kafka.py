"""The embedded broker starts, keeps its topics, and reports why it cannot start."""

import socket
from pathlib import Path

import psutil
import pytest

from dedupe_kafka.cluster import Cluster
from dedupe_local.errors import BrokerFailed
from dedupe_local.servers.kafka import HOST, EmbeddedBroker, free_ports
from tests.support.patience import wait_for
from tests.support.processes.brokers import mortal_broker


def test_a_broker_that_was_killed_has_its_topics_again_on_the_same_port(tmp_path: Path) -> None:
    broker = mortal_broker(tmp_path)
    with broker:
        servers = broker.bootstrap_servers
        Cluster(servers).ensure_input("orders", 3)
        killed = psutil.Process(broker.pid)

        broker.kill()
        assert not broker.running
        assert not killed.is_running()
        broker.start()

        assert broker.bootstrap_servers == servers
        found = Cluster(servers).topic("orders")
        assert found is not None
        assert found.partitions == 3
    assert not broker.running


def test_a_directory_may_have_any_letters_and_a_backslash(tmp_path: Path) -> None:
    directory = tmp_path / "Bestellungen für Köln \\ 注文 #1"
    with EmbeddedBroker(directory) as broker:
        Cluster(broker.bootstrap_servers).ensure_input("orders", 1)
        wait_for((directory / "data" / "orders-0").is_dir, "the partition is in the directory")


def test_a_broker_listens_on_this_machine_only(broker: EmbeddedBroker) -> None:
    listening = [
        connection.laddr.ip
        for connection in psutil.Process(broker.pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]

    assert len(listening) == 2  # for clients, and for its controller
    assert {address.removeprefix("::ffff:") for address in listening} == {HOST}


def test_another_port_is_chosen_for_a_controller_whose_port_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port for clients is that of the manifest, and free."""
    (port,) = free_ports(1)
    with socket.create_server((HOST, 0)) as taken:
        chosen = [[0, taken.getsockname()[1]]]
        monkeypatch.setattr(
            "dedupe_local.servers.kafka.free_ports",
            lambda count, host: chosen.pop() if chosen else free_ports(count, host),
        )
        with EmbeddedBroker(tmp_path, port=port) as broker:
            assert broker.bootstrap_servers == f"{HOST}:{port}"
    assert not chosen


def test_a_port_that_is_taken_is_told_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        broker = EmbeddedBroker(tmp_path, port=port)

        with pytest.raises(BrokerFailed, match=rf"Something listens on port {port}.*stop it"):
            broker.start()

    assert not broker.running


@pytest.mark.matrix  # the port that is taken
def test_a_port_that_another_kafka_has_is_not_taken_for_ones_own(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    second = EmbeddedBroker(tmp_path, port=broker.port)

    with pytest.raises(BrokerFailed, match="--bootstrap-servers"):
        second.start()


def test_data_that_cannot_be_read_is_told_with_the_last_words_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=99\n")

    with pytest.raises(BrokerFailed, match=r"ended with exit code \d+.*remove") as failed:
        EmbeddedBroker(tmp_path).start()

    assert "node id" in str(failed.value)
