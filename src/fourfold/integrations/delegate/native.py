"""NativeDelegate: the TfLiteDelegate structure and its callbacks, which never raise.

A Python callback that raises returns zero to C, which means success. Each callback therefore runs
in a Guard, which turns exceptions into a status and a message of the interpreter.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from types import TracebackType

from fourfold.errors import DeviceError, FourfoldError
from fourfold.integrations.delegate.claim import Claims, ClaimSearch
from fourfold.integrations.delegate.claimable_graph import ClaimableGraph
from fourfold.integrations.delegate.delegate_kernel import DelegateKernel
from fourfold.integrations.delegate.device_tensors import DeviceTensors
from fourfold.integrations.delegate.host import Host, NodeSubset
from fourfold.integrations.delegate.match import check_layouts, find_graph
from fourfold.integrations.delegate.session_factory import SessionFactory
from fourfold.integrations.delegate.structs import (
    ALLOW_DYNAMIC_TENSORS,
    ERROR,
    OK,
    Free,
    Init,
    OnNode,
    TfLiteContext,
    TfLiteDelegate,
    TfLiteNode,
    TfLiteRegistration,
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
            log.warning("the model does not run on the GPU: %s", error)
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
