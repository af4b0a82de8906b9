"""One thrift server for the tests that need one: starting it costs seconds."""

from __future__ import annotations

import pytest

from tests.spark.programs import ThriftServer


@pytest.fixture(scope="session")
def thrift_server(tmp_path_factory):
    """Gives the server that runs, or starts one: the first time, and after a test that stopped it."""
    started: list[ThriftServer] = []

    def running() -> ThriftServer:
        if not (started and started[-1].runs):
            started.append(ThriftServer(tmp_path_factory.mktemp("thrift")))
        return started[-1]

    yield running
    for server in started:
        server.stop()
