"""Find out within seconds that no broker can be reached.

Commands call it before they start anything. A client tries again for ever, as a service must; a user who has mistyped
a host waits for nothing.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from dedupe_crds.deadline import Deadline
from dedupe_kafka.client import calling, client_config, kafka_error, made
from dedupe_kafka.clients import CLIENTS
from dedupe_kafka.errors import BrokerUnavailable, NotAuthorized

_SURE_SECONDS: Final = 2.0
_ANSWER_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.1
_FAILURE: Final = re.compile(r"(?:\w+://)?(\S+)/bootstrap: (.*?)(?: \(after \d+ms in state .*)?")


class _Failures:
    """The last failure of each bootstrap server."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = set(bootstrap_servers.split(","))
        self._last: dict[str, KafkaError] = {}

    def hear(self, error: KafkaError) -> None:
        """Record an error, as the client's `error_cb`."""
        if found := _FAILURE.fullmatch(error.str()):
            self._last[found[1]] = KafkaError(error.code(), f"{found[1]}: {found[2]}")

    @property
    def are_sure(self) -> bool:
        """Return whether each server has failed in a way that more time does not repair."""
        return self._servers <= self._last.keys() and all(map(_is_sure, self._last.values()))

    def error(self, advice: str) -> BrokerUnavailable | NotAuthorized:
        """Return the error that names all failures."""
        for each in self._last.values():
            if isinstance(named := kafka_error(each, "asking for the cluster"), NotAuthorized):
                return named
        reasons = "; ".join(each.str() for each in self._last.values())
        return BrokerUnavailable(
            f"no Kafka broker can be reached: {reasons or 'no answer'}; check that Kafka runs there and can be reached "
            f"from here, or correct the bootstrap servers{advice}"
        )


def check_reachable(
    bootstrap_servers: str,
    properties: Mapping[str, str],
    *,
    advice: str = "",
    deadline: Callable[[float], Deadline] = Deadline,
) -> None:
    """Return once a broker answers.

    Raises BrokerUnavailable after 2 s if each server refuses connections or has a host that can't be resolved, and
    after 15 s if none answers for another reason. `advice` ends its message. Raises NotAuthorized for refused
    credentials, and InvalidConfig.
    """
    failures = _Failures(bootstrap_servers)
    # Often enough to hear of each server's failure in time.
    config = {
        **client_config(bootstrap_servers, properties),
        "log_level": 0,
        "reconnect.backoff.max.ms": 500,
        "error_cb": failures.hear,
    }
    admin = made(CLIENTS.admin, config)
    with calling(f"asking {bootstrap_servers} for its brokers"):
        answer = admin.describe_cluster(request_timeout=_ANSWER_SECONDS)
        sure, end = deadline(_SURE_SECONDS), deadline(_ANSWER_SECONDS)
        while not (end.expired or (sure.expired and failures.are_sure)):
            try:
                answer.result(_POLL_SECONDS)
            except TimeoutError:
                admin.poll(0)  # lets the client report why it cannot reach Kafka
            except KafkaException:
                break
            else:
                return
        admin.poll(0)
    raise failures.error(advice)


def _is_sure(error: KafkaError) -> bool:
    return (
        error.code() == KafkaError._RESOLVE  # noqa: SLF001 (its public name)
        or "Connection refused" in error.str()
        or isinstance(kafka_error(error, ""), NotAuthorized)
    )
