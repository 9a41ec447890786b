"""What several users have open is opened once and closed after the last, or when a command ends."""

from __future__ import annotations

import pytest

from fourfold.backends.connections import Connections


class Opened:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_the_last_user_closes_it() -> None:
    connections: Connections[Opened] = Connections()
    first = connections.acquire("a", Opened)
    assert connections.acquire("a", Opened) is first
    assert connections.acquire("b", Opened) is not first
    connections.release("a")
    assert not first.closed
    connections.release("a")
    assert first.closed == 1
    assert connections.acquire("a", Opened) is not first


def test_a_command_holds_all_until_it_ends() -> None:
    connections: Connections[Opened] = Connections()
    seen = []

    def command() -> None:
        with connections.held():
            for _ in range(2):
                with connections.using("a", Opened) as session:
                    seen.append(session)
                assert not session.closed
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        command()
    assert seen[0] is seen[1]
    assert seen[0].closed == 1


def test_what_is_still_used_outlives_a_command() -> None:
    connections: Connections[Opened] = Connections()
    with connections.held():
        first = connections.acquire("a", Opened)
    assert not first.closed
    connections.release("a")
    assert first.closed == 1


def test_what_did_not_open_is_not_there() -> None:
    connections: Connections[Opened] = Connections()

    def fail() -> Opened:
        raise OSError

    with pytest.raises(OSError), connections.using("a", fail):  # noqa: PT011
        pass
    with connections.using("a", Opened) as made:
        assert not made.closed
    assert made.closed == 1
