"""One op per file; `fourfold.ops.base.registry` finds them by file name."""
