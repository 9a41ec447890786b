"""fourfold as a delegate of TFLite: claims nodes of an interpreter and runs them on the GPU."""
