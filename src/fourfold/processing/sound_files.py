"""Limits of sound files, which commands name before they read any."""

from __future__ import annotations

EXTENSION = ".wav"
MIN_RATE_HZ, MAX_RATE_HZ = 1000, 1_000_000
