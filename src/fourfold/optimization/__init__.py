"""Optimize models for shipping: any format in, a prepared file, .tflite or .onnx out.

options: the caller's options. cut, passes: changes of a graph. optimizer: the work on one model.
run: all models of a file. output_file, prepared_file: how the file is written. answers, report: the
results. operators: operators that can be read and written.
"""
