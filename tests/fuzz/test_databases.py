"""A damaged database of the cache never fails a start, and is replaced."""

from __future__ import annotations

import os

import pytest
from fuzz.database_damage import DAMAGES
from fuzz.databases import try_cases

CASES = 200


@pytest.mark.skipif(os.name == "nt", reason="the files of the cache have other rights there")
def test_damaged_databases_never_fail_a_start() -> None:
    kinds = set()
    for number, name, failure in try_cases(range(CASES), seed=1):
        assert not failure, f"case {number}, damaged {name}:\n{failure}"
        kinds.update(name.split(" and "))
    assert kinds == set(DAMAGES)
