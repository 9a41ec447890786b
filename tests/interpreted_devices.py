"""Devices for the interpreter that no test machine has.

A module with such devices as INTERPRETED also runs its device tests on them.
"""

from __future__ import annotations

from dataclasses import replace

import fake_devices as facts

from fourfold.backends.interpreter.device import PLAIN_GPU, device

PLAIN = replace(PLAIN_GPU, name="plain, interpreted")
CPU = replace(device(facts.X86), name="cpu, interpreted", dot_products="")
X86 = replace(device(facts.X86), name="x86, interpreted")
KHR = replace(device(facts.EXTENDED), name="khr, interpreted")
IMAGES = replace(device(facts.IMAGES), name="images, interpreted")
NVIDIA = replace(device(facts.NVIDIA), name="nvidia, interpreted")
RESIDENT = replace(NVIDIA, name="resident, interpreted", matrix_units=False, subgroups="")
