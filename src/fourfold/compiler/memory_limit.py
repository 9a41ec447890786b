"""Plans within a limit of device memory: slower variants first, then less exact ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from fourfold.errors import DeviceError
from fourfold.options import CompileOptions
from fourfold.plan import CompiledModel
from fourfold.support.log import Log

log = Log("compiler")


def smaller_options(options: CompileOptions) -> Iterator[tuple[str, CompileOptions]]:
    """Yield the options, then variants that need less and less memory, each with a description of
    its drawbacks.
    """
    limit, sacrificed = options.memory_limit, []
    yield "", options
    if options.launches == "auto":
        options = replace(options, launches="list")
        sacrificed.append("one launch for each kernel")
        yield ", ".join(sacrificed), options
    options = replace(options, saves_memory=True)
    sacrificed.append("no kernels that trade memory for speed")
    yield ", ".join(sacrificed), options
    if limit is not None and options.any_precision and options.precision == "fp32":
        sacrificed.append("fp16 storage")
        yield ", ".join(sacrificed), replace(options, precision="mixed")


def within_limit(
    title: str, options: CompileOptions, compile_with: Callable[[CompileOptions], CompiledModel]
) -> CompiledModel:
    """Return the model compiled with the options, or with the first variant that fits into the
    memory limit.
    """
    limit = options.memory_limit
    if limit is None:
        return compile_with(options)
    smallest: CompiledModel | None = None
    for sacrificed, smaller in smaller_options(options):
        model = compile_with(smaller)
        if model.device_bytes <= limit:
            if sacrificed:
                log.warn_once(f"{title} fits into memory_limit={limit} with {sacrificed}")
            return model
        if smallest is None or model.device_bytes < smallest.device_bytes:
            smallest = model
    assert smallest is not None
    raise _too_large(title, smallest, options)


def _too_large(title: str, smallest: CompiledModel, options: CompileOptions) -> DeviceError:
    limit, needed = options.memory_limit, smallest.device_bytes
    assert limit is not None
    weights, arena = smallest.bytes("constants"), smallest.bytes("arena")
    ports = smallest.bytes("input") + smallest.bytes("output")
    tried = options.any_precision or options.precision != "fp32"
    precision = "" if tried else " precision='mixed',"
    return DeviceError(
        f"{title} does not fit into memory_limit={limit}",
        f"the smallest plan needs {needed} bytes on the device: {weights} of weights, {arena} of"
        f" values between kernels, {ports} of inputs and outputs",
        f"pass memory_limit={needed} or more,{precision} smaller shapes=, or placement='cpu'",
    )
