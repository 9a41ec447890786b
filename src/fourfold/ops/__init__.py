"""One op a file; `fourfold.op.registry` finds them by their names."""
