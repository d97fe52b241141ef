"""What a cluster, a database and a store are asked for: their own counters, before and after."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from tests.doubles.faulty_s3 import FaultyS3
from tests.kubernetes_cluster import Cluster
from tests.postgresql_server import PostgresqlServer

_LINE = re.compile(r'^apiserver_request_total\{.*[{,]resource="(\w*)".*verb="(\w+)".*\} ([0-9.e+]+)$')
_OF_SESSIONS = ("pods", "secrets", "networkpolicies", "events")
"""Resources that sessions make anybody ask for: the service, the scheduler, kubelets."""


@dataclass(frozen=True)
class Counted:
    """Requests by what they were."""

    api: Counter[str]
    transactions: int
    store: Counter[str]

    def since(self, before: Counted, sessions: int) -> str:
        """What each of some sessions took, in words."""

        def each(now: Counter[str], then: Counter[str]) -> str:
            took = {name: (now[name] - then[name]) / sessions for name in now}
            shown = [f"{name} {value:.1f}" for name, value in sorted(took.items(), key=lambda one: -one[1])]
            return f"{sum(took.values()):.1f} ({', '.join(one for one in shown if not one.endswith(' 0.0'))})"

        transactions = (self.transactions - before.transactions) / sessions
        return (
            f"per session: API server {each(self.api, before.api)}; database {transactions:.1f} transactions;"
            f" store {each(self.store, before.store)}"
        )


def count(cluster: Cluster, server: PostgresqlServer, store: FaultyS3) -> Counted:
    """As it is now."""
    api: Counter[str] = Counter()
    for line in cluster.kubectl("get", "--raw", "/metrics").splitlines():
        if (found := _LINE.match(line)) and found[1] in _OF_SESSIONS:
            api[f"{found[2]} {found[1]}"] += int(float(found[3]))
    engine = server.connect()
    try:
        with engine.connect() as connection:
            said = "SELECT pg_stat_clear_snapshot(), sum(xact_commit + xact_rollback) FROM pg_stat_database"
            transactions = int(connection.exec_driver_sql(said).one()[1])
    finally:
        engine.dispose()
    return Counted(api, transactions, Counter(store.operations()))
