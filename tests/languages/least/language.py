"""A language without halves, bytes and work-groups."""

from __future__ import annotations

from dataclasses import replace

from fourfold.codegen.narrow.language import NARROW, NarrowLanguage

from fourfold.codegen.language import Language
from fourfold.types import DType

LEAST = replace(NARROW, language="Least", local_memory=False)
LEAST = replace(LEAST, storages=frozenset((DType.F32, DType.I32)))

LANGUAGE: Language = NarrowLanguage(LEAST)
