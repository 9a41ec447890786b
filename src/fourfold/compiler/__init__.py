"""The compiler: from a model file, by rewritten graphs and partitions, to plans."""
