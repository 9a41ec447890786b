"""Plans that keep a limit of device memory: slower ones are tried, then less exact ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from fourfold.errors import DeviceError
from fourfold.log import Log
from fourfold.options import CompileOptions
from fourfold.plan import Plan

log = Log("compile")

T = TypeVar("T")


def smaller_options(options: CompileOptions) -> Iterator[tuple[str, CompileOptions]]:
    """What was asked for, then what takes less and less memory; each with words for all that was
    given up by then.
    """
    limit, given_up = options.memory_limit, []
    yield "", options
    if options.launches == "auto":
        options = replace(options, launches="list")
        given_up.append("one launch for each kernel")
        yield ", ".join(given_up), options
    options = replace(options, saves_memory=True)
    given_up.append("no kernels that buy speed with memory")
    yield ", ".join(given_up), options
    if limit is not None and limit.any_precision and options.precision == "fp32":
        given_up.append("halves in memory")
        yield ", ".join(given_up), replace(options, precision="mixed")


def within_limit(
    title: str,
    options: CompileOptions,
    make: Callable[[CompileOptions], T],
    plan_of: Callable[[T], Plan],
) -> T:
    """What `make` gives for the options, or for the first smaller ones that keep the limit."""
    limit = options.memory_limit
    if limit is None:
        return make(options)
    smallest: Plan | None = None
    for given_up, smaller in smaller_options(options):
        made = make(smaller)
        plan = plan_of(made)
        if plan.device_bytes <= limit.bytes:
            if given_up:
                log.warn_once(f"{title} keeps memory_limit={limit.bytes} with {given_up}")
            return made
        if smallest is None or plan.device_bytes < smallest.device_bytes:
            smallest = plan
    assert smallest is not None
    raise _too_large(title, smallest, options)


def _too_large(title: str, smallest: Plan, options: CompileOptions) -> DeviceError:
    limit, needed = options.memory_limit, smallest.device_bytes
    assert limit is not None
    weights, arena = smallest.bytes("constants"), smallest.bytes("arena")
    ports = smallest.bytes("input") + smallest.bytes("output")
    tried = limit.any_precision or options.precision != "fp32"
    halves = "" if tried else " precision='mixed',"
    return DeviceError(
        f"{title} does not fit into memory_limit={limit.bytes}",
        f"the smallest plan needs {needed} bytes on the device: {weights} of weights, {arena} of"
        f" values between kernels, {ports} of inputs and outputs",
        f"pass memory_limit={needed} or more,{halves} smaller shapes=, or placement='cpu'",
    )
