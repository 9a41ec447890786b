"""Shared connections are opened once and closed after the last user or at the end of a command."""

from __future__ import annotations

import pytest

from fourfold.backends.connections import Connections


class FakeConnection:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_last_user_closes_a_connection() -> None:
    connections: Connections[FakeConnection] = Connections()
    first = connections.acquire("a", FakeConnection)
    assert connections.acquire("a", FakeConnection) is first
    assert connections.acquire("b", FakeConnection) is not first
    connections.release("a")
    assert not first.closed
    connections.release("a")
    assert first.closed == 1
    assert connections.acquire("a", FakeConnection) is not first


def test_command_keeps_connections_until_it_ends() -> None:
    connections: Connections[FakeConnection] = Connections()
    seen = []

    def command() -> None:
        with connections.held():
            for _ in range(2):
                with connections.using("a", FakeConnection) as session:
                    seen.append(session)
                assert not session.closed
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        command()
    assert seen[0] is seen[1]
    assert seen[0].closed == 1


def test_used_connections_outlive_a_command() -> None:
    connections: Connections[FakeConnection] = Connections()
    with connections.held():
        first = connections.acquire("a", FakeConnection)
    assert not first.closed
    connections.release("a")
    assert first.closed == 1


def test_failed_connections_are_not_cached() -> None:
    connections: Connections[FakeConnection] = Connections()

    def fail() -> FakeConnection:
        raise OSError

    with pytest.raises(OSError), connections.using("a", fail):  # noqa: PT011
        pass
    with connections.using("a", FakeConnection) as result:
        assert not result.closed
    assert result.closed == 1
