"""The numbers by which DLPack knows kinds of devices."""

from __future__ import annotations

CPU, CUDA, PINNED, OPENCL = 1, 2, 3, 4
