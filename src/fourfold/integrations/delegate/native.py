"""NativeDelegate: the TfLiteDelegate structure and its callbacks, which never raise.

A Python callback that raises returns zero to C, which means success. Each callback therefore runs
in a Guard, which turns exceptions into a status and a message of the interpreter.

Before memory is trusted, the interpreter's graph is compared with the delegate's model. Nodes are
queried one by one. Tensors lie in an array whose stride depends on the runtime. Their types, which
are plain numbers, are compared first. Pointers are followed only if all types match.
"""

from __future__ import annotations

import ctypes
import itertools
import warnings
from collections.abc import Callable, Iterator
from types import TracebackType

import numpy as np

from fourfold.errors import DeviceError, FourfoldError, InputError
from fourfold.formats.tflite.records import FileRecord, OperatorRecord, SubgraphRecord
from fourfold.integrations.delegate.claim import Claims, ClaimSearch
from fourfold.integrations.delegate.claimable_graph import ClaimableGraph
from fourfold.integrations.delegate.delegate_kernel import DelegateKernel
from fourfold.integrations.delegate.device_tensors import DeviceTensors
from fourfold.integrations.delegate.host import DELEGATE, Host, NodeSubset, Operator
from fourfold.integrations.delegate.session_factory import SessionFactory
from fourfold.integrations.delegate.structs import (
    ALLOW_DYNAMIC_TENSORS,
    ERROR,
    OK,
    READ_ONLY,
    TENSOR_BYTES,
    TYPES,
    Free,
    Init,
    OnNode,
    TfLiteContext,
    TfLiteDelegate,
    TfLiteNode,
    TfLiteRegistration,
    TfLiteTensor,
)
from fourfold.support.log import Log

NAME = b"fourfold"
log = Log("integrations.delegate")
Graphs = Callable[[int], ClaimableGraph | None]


class Guard:
    """Context of a callback: turns an exception into `status` and passes it to `failed`."""

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self.status, self._failed = OK, failed

    def __enter__(self) -> Guard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is not None:
            self.status = ERROR
            self._failed(error)
        return True


class NativeDelegate:
    """A TfLiteDelegate at `address`. It must outlive the interpreters that use it."""

    def __init__(self, graphs: Graphs, factory: SessionFactory) -> None:
        check_layouts()
        self._graphs, self._factory = graphs, factory
        self.last_error: BaseException | None = None
        self.claims: dict[int, Claims] = {}
        self.on_claims: Callable[[Claims], None] = lambda claims: None
        self._searches: dict[int, ClaimSearch] = {}
        self._kernels: dict[int, DelegateKernel] = {}
        self.device_tensors = DeviceTensors(self._kernels)
        self._numbers = itertools.count(1)
        self._registration = TfLiteRegistration(
            init=Init(self._init),
            free=Free(self._free),
            prepare=OnNode(self._prepare),
            invoke=OnNode(self._invoke),
            custom_name=NAME,
            version=1,
        )
        self._struct = TfLiteDelegate(Prepare=OnNode(self._take), flags=ALLOW_DYNAMIC_TENSORS)

    @property
    def address(self) -> int:
        return ctypes.addressof(self._struct)

    def _guard(self, context: int) -> Guard:
        """Return a guard whose failure the interpreter raises as an error."""

        def failed(error: BaseException) -> None:
            self.last_error = error
            own = isinstance(error, FourfoldError)
            Host(context).report(str(error) if own else f"{type(error).__name__}: {error}")

        return Guard(failed)

    def _take(self, context: int, delegate: int) -> int:
        """Implement TFLite's Prepare of a delegate: claim nodes of a graph that belongs to
        the model.
        """
        with self._guard(context) as guard:
            number = self._recognized(Host(context))
            graph = None if number is None else self._graphs(number)
            if number is not None and graph is not None:
                self._claim(ClaimSearch(Host(context), graph, self._factory), number)
        return guard.status

    def _recognized(self, host: Host) -> int | None:
        """Return which graph of the model this is, or None after a warning if it is none of
        them.
        """
        main = self._graphs(0)
        try:
            return None if main is None else find_graph(host, main.file)
        except FourfoldError as error:
            self.last_error = error
            message = f"the model does not run on the GPU: {error}"
            log.warning("%s", message)
            # A log that nobody reads would leave the caller with a slow model and no reason.
            warnings.warn(message, RuntimeWarning, stacklevel=2)
            return None

    def _claim(self, search: ClaimSearch, number: int) -> None:
        """Claim the chosen subsets; the interpreter calls `_init` for each of them."""
        subsets, host = search.choose(), search.host
        self._searches[host.address] = search
        try:
            if subsets:
                nodes = [number for subset in subsets for number in subset.nodes]
                host.claim(nodes, self._registration, self.address)
        finally:
            del self._searches[host.address]
            search.close()
        claims = search.result(subsets)
        if self.claims.get(number) != claims:
            self.claims[number] = claims
            say = log.info if subsets else log.warning
            say("on the GPU: %s", claims.summary)
            self.on_claims(claims)

    def _init(self, context: int, params: int, size: int) -> int:
        """Return the number of a new kernel; zero if it failed, which `_prepare` reports."""
        number = 0
        with self._guard(context):
            search, subset = self._searches[context], NodeSubset.at(params)
            kernel = search.ready.pop(subset, None)
            kernel = kernel or DelegateKernel(search.graph.write_subset(subset), self._factory)
            kernel.join(context, self.device_tensors.bound_in(kernel.file.graph))
            number = next(self._numbers)
            self._kernels[number] = kernel
        return number

    def _free(self, context: int, number: int | None) -> None:
        with Guard(lambda error: log.warning("a partition was not freed: %s", error)):
            kernel = self._kernels.pop(number or 0, None)
            if kernel is not None:
                kernel.close()

    def _prepare(self, context: int, node: int) -> int:
        with self._guard(context) as guard:
            self._kernel(node).prepare(Host(context))
        return guard.status

    def _invoke(self, context: int, node: int) -> int:
        with self._guard(context) as guard:
            self._kernel(node).invoke(TfLiteContext.from_address(context).tensors)
        return guard.status

    def _kernel(self, node: int) -> DelegateKernel:
        number = TfLiteNode.from_address(node).user_data or 0
        if number not in self._kernels:
            raise DeviceError(
                "a partition could not be set up",
                str(self.last_error or "the interpreter did not initialize it"),
                "run without the delegate, and report this with the model",
            )
        return self._kernels[number]


MAX_COMPARED_BYTES = 1024  # of each constant
POINTER_BYTES = 8


def check_layouts() -> None:
    """Raise DeviceError if ctypes and C compilers disagree about the layout of a tensor."""
    size = ctypes.sizeof(TfLiteTensor)
    if ctypes.sizeof(ctypes.c_void_p) == POINTER_BYTES and size != TENSOR_BYTES:
        raise DeviceError(
            f"a TfLiteTensor would have {size} bytes on this platform",
            f"the known layout has {TENSOR_BYTES}",
            "report this with the platform, and run without the delegate",
        )


def find_graph(host: Host, file: FileRecord) -> int:
    """Return the number of the model's graph that the interpreter has. Raises InputError if
    none.
    """
    reasons: list[str] = []
    for number, graph in enumerate(file.subgraphs):
        reason = next(find_differences(host, file, graph), None)
        if reason is None:
            return number
        reasons.append(reason)
    raise InputError(
        "the interpreter has another model than GpuDelegate",
        reasons[0],
        "pass the same file or bytes to both; if you do, report the runtime's version",
    )


def find_differences(host: Host, file: FileRecord, graph: SubgraphRecord) -> Iterator[str]:
    """Yield differences, the most informative first."""
    if host.tensors < len(graph.tensors):
        yield f"it has {host.tensors} tensors, and the model {len(graph.tensors)}"
        return
    differs = False
    for reason in (*_nodes(host, graph), *_types(host, graph)):
        differs = True
        yield reason
    if not differs:
        yield from _tensors(host, file, graph)


def _nodes(host: Host, graph: SubgraphRecord) -> Iterator[str]:
    plan, count = host.plan(), len(graph.operators)
    operators = {number: host.operator(number) for number in plan}
    for number, operator in operators.items():
        if number < count:
            yield from _node(number, operator, graph.operators[number])
        elif operator.op != DELEGATE:
            yield f"it has a node {number}, and the model {count} operators"
    if len(plan) < count and not any(one.op == DELEGATE for one in operators.values()):
        yield f"it has {len(plan)} nodes, and the model {count} operators"


def _node(number: int, operator: Operator, record: OperatorRecord) -> Iterator[str]:
    if (operator.op, operator.custom_code) != (record.op, record.custom_code):
        yield f"its node {number} is {operator.op}, and the model's {record.title}"
    elif (operator.inputs, operator.outputs) != (record.inputs, record.outputs):
        yield f"its node {number}, {operator.op}, has other inputs or outputs than the model's"


def _types(host: Host, graph: SubgraphRecord) -> Iterator[str]:
    for number, record in enumerate(graph.tensors):
        dtype = TYPES.get(host.tensor(number).type)
        if record.dtype is not None and dtype is not record.dtype:
            kind = "an unknown type" if dtype is None else dtype.value
            yield f"its tensor {number} has {kind}, and the model's {record.dtype.value}"


def _tensors(host: Host, file: FileRecord, graph: SubgraphRecord) -> Iterator[str]:
    for number, record in enumerate(graph.tensors):
        tensor, stored = host.tensor(number), file.buffers[record.buffer]
        name = (tensor.name or b"").decode(errors="replace")
        if name != record.name:
            yield f"its tensor {number} is called '{name}', and the model's '{record.name}'"
        elif tensor.allocation_type == READ_ONLY and stored.size:
            if tensor.bytes != stored.size or host.shape(number) != record.shape:
                yield f"its constant '{name}' has another size than the model's"
            elif not _same_bytes(tensor, stored):
                yield f"its constant '{name}' has other values than the model's"


def _same_bytes(tensor: TfLiteTensor, stored: np.ndarray) -> bool:
    size = min(stored.size, MAX_COMPARED_BYTES)
    return ctypes.string_at(tensor.data, size) == stored[:size].tobytes()
