"""One op per file; `fourfold.ops.base` finds them by file name."""
