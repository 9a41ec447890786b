"""From a request to arrays.

A `Session` turns the caller's arguments into a `Request` (request) and asks the `InstanceCache`
(instance_cache) for a `ModelInstance` (instance): the model made ready for one set of input shapes.
Loading takes the first source that has the compiled model: a prepared file, the store, or the
compiler.

An `Executor` (executor) then opens a player for each part that runs on the device, from a cached
binary if possible (binary_cache), and a CPU engine for each other part. With placement='measure'
the model is also timed on the CPU, and stays where it is faster (race).

A run checks the caller's arrays (inputs; arrays and fitting only if an array does not fit as it is)
and executes the model. After the first run, new binaries are stored. A caller may request some of
the outputs, or pass arrays for the results (results, cutting).

A start from a prepared file or from the store imports no compiler module. Modules that only some
starts need are behind `lazy_import`.
"""
