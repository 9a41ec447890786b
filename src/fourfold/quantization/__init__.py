"""Post-training quantisation: a float model becomes a file of integers or halves.

method: what is stored as what. rules: what each op asks of its integers.
layers, sharing: which nodes compute on integers, and which of their values share a grid.
samples, running, calibrate, ranges: the float graph is run on samples, and ranges are found.
grids, correct_bias, assign: ranges become grids, constants are rounded, biases corrected.
simulate, measure, sensitivity: what each layer costs, and which ones stay float.
writable, quantize: what a writer of a format is given, and all of it in order.
"""
