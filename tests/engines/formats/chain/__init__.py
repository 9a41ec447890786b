"""Chains: operators one after the other, as JSON. Operators without an op of fourfold run in
Abacus.
"""

from __future__ import annotations

from fourfold.formats.format import Format
from fourfold.formats.source import ModelSource


def matches(source: ModelSource) -> bool:
    return source.content[:64].startswith(b'{"chain"')


FORMAT = Format("Chain", (".chain",), matches, f"{__name__}.reader", cpu_engine="abacus")
