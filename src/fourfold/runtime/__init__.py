"""From a request to arrays.

A `Session` puts what a caller says into a `Request` (request) and asks the `InstanceCache`
(instance_cache) for a `ModelInstance` (instance): the model made ready for one set of shapes. It
takes the first of these that works:

1. a prepared file has the plan, or the store does (loading): nothing is compiled;
2. either has the model in parts, of which some run on the CPU (hybrid_loading);
3. all of the model is compiled as one plan for the device (loading);
4. where the device cannot take all of it, it is placed and compiled in parts (hybrid_loading).

A plan gets a player, its program from a kept binary where there is one (binary_cache); a model in
parts gets a player that runs an engine for each part (hybrid_player). With placement='auto' the
model is timed on the CPU, too, and stays where it is faster (race). A run checks the arrays that a
caller passes (inputs; arrays, fitting, conversions and shape_hints where one is no array that fits
as it is) and plays; after the first one, new binaries are kept (binary_cache). A caller may want
some outputs alone, or results in its own arrays (results, cutting).

A start from a prepared file or from the store imports nothing that compiles, and what only some
starts need waits behind `lazy_import`.
"""
