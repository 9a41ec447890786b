"""Other forms of a model: quantized, optimized, or as a web page."""
