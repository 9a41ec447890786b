"""What is half made is given back, whatever ended the making."""

from __future__ import annotations

import pytest

from fourfold.backends.cleanup import cleanup_on_error


@pytest.mark.parametrize("error", [ValueError, MemoryError, KeyboardInterrupt, SystemExit])
def test_what_ended_it_goes_on_when_all_is_given_back(error: type[BaseException]) -> None:
    released: list[str] = []
    with pytest.raises(error), cleanup_on_error(lambda: released.append("all")):
        raise error
    assert released == ["all"]


def test_what_was_made_is_kept() -> None:
    released: list[str] = []
    with cleanup_on_error(lambda: released.append("all")):
        pass
    assert not released
