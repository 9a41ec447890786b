"""Post-training quantization: convert a float model to int8, int4 or fp16.

method: data types of weights, activations and biases. rules: quantization rules of each operator.
layers, sharing: nodes that compute on integers, and values that share a grid. samples, running,
calibrate, ranges: run the float graph on samples to find the ranges of values. grids, assign: turn
ranges into grids, round constants and correct biases. measure, sensitivity: measure the loss of
each layer and choose layers that stay float. writable, quantize: the input of a format's writer,
and the whole procedure.
"""
