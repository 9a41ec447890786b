"""One op per file; `fourfold.op.registry` finds them by file name."""
