"""Arrays copied band by band, so that what is there already can be used while the rest comes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from fourfold.later import later

futures = later("concurrent.futures")
LARGE = 2 << 20  # bytes; one thread copies fewer before others have woken up
SHARE = 512 << 10  # bytes that a thread copies at a time
MOST_THREADS = 4


def copy_bands(target: np.ndarray, source: np.ndarray, band: int) -> Iterator[tuple[int, int]]:
    """Copy an array into another of its shape; yields from where to where, in elements and in
    order, as soon as so many bytes are there.
    """
    if not source.flags.c_contiguous or source.dtype != target.dtype:
        np.copyto(target, source)
        yield 0, target.size
        return
    to, of = target.reshape(-1), source.reshape(-1)
    pool = _pool() if target.nbytes >= LARGE else None
    step = max(band, SHARE if pool else 0) // target.itemsize
    bounds = [(start, min(start + step, to.size)) for start in range(0, to.size, step)]
    if pool is None:
        for start, stop in bounds:
            to[start:stop] = of[start:stop]
            yield start, stop
        return
    copies = [pool.submit(np.copyto, to[start:stop], of[start:stop]) for start, stop in bounds]
    for copy, bound in zip(copies, bounds, strict=True):
        copy.result()
        yield bound


@cache
def _pool() -> Any:
    """Threads that copy, where there are processors for them; one alone does not fill memory."""
    count = min(MOST_THREADS, os.cpu_count() or 1)
    return futures.ThreadPoolExecutor(count, "fourfold-copy") if count > 2 else None
