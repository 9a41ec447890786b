"""Models made ready to be shipped: any format in, a prepared file or one for other runtimes out.

options: what a caller says. cut, passes: what is changed of a graph. optimizer: one model on its
way. run: all models of a file. output_file, prepared_file: how it gets into its place. answers,
report: what became of it. operators: what can be read and written at all.
"""
