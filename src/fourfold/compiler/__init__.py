"""The compiler: from a model file through rewritten graphs and partitions to plans."""
