"""Partially created objects are released when their creation fails."""

from __future__ import annotations

import pytest

from fourfold.backends.cleanup import cleanup_on_error


@pytest.mark.parametrize("error", [ValueError, MemoryError, KeyboardInterrupt, SystemExit])
def test_releases_and_reraises_the_error(error: type[BaseException]) -> None:
    released: list[str] = []
    with pytest.raises(error), cleanup_on_error(lambda: released.append("all")):
        raise error
    assert released == ["all"]


def test_does_not_release_after_success() -> None:
    released: list[str] = []
    with cleanup_on_error(lambda: released.append("all")):
        pass
    assert not released
