"""OpenCL C as a kernel language."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.kernel.c_style.functions import function_of
from fourfold.kernel.c_style.renderer import render
from fourfold.kernel.capabilities import Capabilities
from fourfold.kernel.context import Target
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.language import Language, Persistent, Prelude
from fourfold.kernel.opencl.dialect import OPENCL
from fourfold.kernel.opencl.joining import PersistentKernel
from fourfold.kernel.opencl.prelude import (
    DOTS,
    HALF_ARITHMETIC,
    HALVES,
    ROUND,
    SUBGROUP_SIZES,
    build_options,
    language_version,
    prelude_text,
)
from fourfold.kernel.walk import Node
from fourfold.types import DType

_CAPABILITIES = Capabilities(
    language="OpenCL C",
    images=True,
    host_addresses=True,
    matrix_fragments=True,
    dot_products=frozenset(DOTS),
    subgroups=SUBGROUP_SIZES,
)


class OpenCL:
    """OpenCL C 1.2, or 3.0 if kernels need one of its extensions."""

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES

    @property
    def persistent(self) -> Persistent | None:
        return PersistentKernel()

    def render(
        self,
        kernel: Kernel,
        entry: str,
        images: frozenset[str] = frozenset(),
        buffers: Sequence[int] = (),
    ) -> str:
        return render(kernel, entry, OPENCL, images)

    def prelude(self, special: Sequence[Node], target: Target) -> Prelude:
        device, options = target.device, target.options
        half = options.real == "half"
        called = {function_of(node) for node in special}
        uses_words = device.matrix_units and options.storage is DType.F16 and not half
        also = {*(HALVES if uses_words else ()), *(ROUND if options.counts_bytes else ())}
        text = prelude_text(called | also, device.dot_products, device.subgroups)
        # OpenCL C 3.0 is required only if kernels use the extensions.
        dots = device.dot_products if options.counts_bytes else ""
        exchange = device.subgroups if "exchange" in called else ""
        rounds = options.counts_bytes and device.packs_bytes
        facts = {"matrix_units": uses_words, "packs_bytes": rounds}
        return Prelude(
            text=(HALF_ARITHMETIC if half else "") + text,
            build_options=build_options(dots, exchange),
            version=language_version(dots, exchange),
            facts=frozenset(name for name, used in facts.items() if used),
        )


LANGUAGE: Language = OpenCL()
