"""fourfold as a TFLite delegate: claims nodes of an interpreter and runs them on the GPU."""
