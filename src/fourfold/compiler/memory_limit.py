"""Plans that keep a limit of device memory: slower ones are tried, then less exact ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fourfold.errors import DeviceError
from fourfold.options import CompileOptions
from fourfold.plan import CompiledModel
from fourfold.support.log import Log

log = Log("compiler")


def smaller_options(options: CompileOptions) -> Iterator[tuple[str, CompileOptions]]:
    """Yield the options, then variants that need less and less memory, each with a description of
    everything that was given up for it.
    """
    limit, sacrificed = options.memory_limit, []
    yield "", options
    if options.launches == "auto":
        options = replace(options, launches="list")
        sacrificed.append("one launch for each kernel")
        yield ", ".join(sacrificed), options
    options = replace(options, saves_memory=True)
    sacrificed.append("no kernels that buy speed with memory")
    yield ", ".join(sacrificed), options
    if limit is not None and options.any_precision and options.precision == "fp32":
        sacrificed.append("fp16 storage")
        yield ", ".join(sacrificed), replace(options, precision="mixed")


def too_large(title: str, smallest: CompiledModel, options: CompileOptions) -> DeviceError:
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
