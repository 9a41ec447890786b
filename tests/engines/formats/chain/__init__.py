"""Chains: operators one behind the other, as JSON. What fourfold has no op for runs in Abacus."""

from __future__ import annotations

from fourfold.formats.format import Format
from fourfold.formats.source import ModelSource


def matches(source: ModelSource) -> bool:
    return source.content[:64].startswith(b'{"chain"')


FORMAT = Format("Chain", (".chain",), matches, f"{__name__}.reader", cpu_engine="abacus")
