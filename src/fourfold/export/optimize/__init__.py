"""Optimize models for shipping: any format in, a prepared file, .tflite or .onnx out.

optimize: the whole procedure, for all models of a file. options: the caller's options. optimizer:
the work on one model. cut, passes: changes of a graph. output_file: checks of the output path.
answers, report: the results. operators: operators that can be read and written.
"""
