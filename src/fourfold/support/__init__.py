"""Shared helpers: lazy imports, logging, progress, timings, traces, fork safety."""
