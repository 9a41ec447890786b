"""The TfLiteDelegate itself: callbacks that never raise, and the structures that name them.

A Python callback that raises gives C a zero, which means success there. So every callback runs in a
Guard, which turns whatever is raised into a status and a message of the interpreter.
"""

from __future__ import annotations

import ctypes
import itertools
import logging
from collections.abc import Callable
from types import TracebackType

from fourfold.delegate.claim import Claim, Claims
from fourfold.delegate.engine import Workshop
from fourfold.delegate.host import Host, Piece
from fourfold.delegate.match import check_layouts, find_graph
from fourfold.delegate.partition import Partition
from fourfold.delegate.source import Source
from fourfold.delegate.structs import (
    ALLOW_DYNAMIC_TENSORS,
    ERROR,
    OK,
    Context,
    Delegate,
    Free,
    Init,
    Node,
    OnNode,
    Registration,
)
from fourfold.errors import DeviceError, FourfoldError

NAME = b"fourfold"
log = logging.getLogger("fourfold")
Sources = Callable[[int], Source | None]


class Guard:
    """Around a callback: what is raised inside becomes `status`, and `failed` hears of it."""

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
    """A TfLiteDelegate at `address`. It must outlive the interpreters that were given it."""

    def __init__(self, sources: Sources, workshop: Workshop) -> None:
        check_layouts()
        self._sources, self._workshop = sources, workshop
        self.last_error: BaseException | None = None
        self.claims: dict[int, Claims] = {}
        self.on_claims: Callable[[Claims], None] = lambda claims: None
        self._claiming: dict[int, Claim] = {}
        self._partitions: dict[int, Partition] = {}
        self._numbers = itertools.count(1)
        self._registration = Registration(
            init=Init(self._init),
            free=Free(self._free),
            prepare=OnNode(self._prepare),
            invoke=OnNode(self._invoke),
            custom_name=NAME,
            version=1,
        )
        self._struct = Delegate(Prepare=OnNode(self._take), flags=ALLOW_DYNAMIC_TENSORS)

    @property
    def address(self) -> int:
        return ctypes.addressof(self._struct)

    def _guard(self, context: int) -> Guard:
        """For a callback whose failure the interpreter raises as an error."""

        def failed(error: BaseException) -> None:
            self.last_error = error
            own = isinstance(error, FourfoldError)
            Host(context).report(str(error) if own else f"{type(error).__name__}: {error}")

        return Guard(failed)

    def _take(self, context: int, delegate: int) -> int:
        """TFLite's Prepare of a delegate: claims nodes of a graph, or none of a strange one."""
        with self._guard(context) as guard:
            number = self._recognised(Host(context))
            source = None if number is None else self._sources(number)
            if number is not None and source is not None:
                self._claim(Claim(Host(context), source, self._workshop), number)
        return guard.status

    def _recognised(self, host: Host) -> int | None:
        """Which graph of the model this is; None, and a line in the log, if it is none of them."""
        source = self._sources(0)
        try:
            return None if source is None else find_graph(host, source.file)
        except FourfoldError as error:
            self.last_error = error
            log.warning("nothing of this model runs on the GPU: %s", error)
            return None

    def _claim(self, claim: Claim, number: int) -> None:
        """Hand the chosen pieces over; the interpreter calls `_init` for each of them."""
        pieces, host = claim.choose(), claim.host
        self._claiming[host.address] = claim
        try:
            if pieces:
                nodes = [number for piece in pieces for number in piece.nodes]
                host.claim(nodes, self._registration, self.address)
        finally:
            del self._claiming[host.address]
            claim.close()
        claims = claim.result(pieces)
        if self.claims.get(number) != claims:
            self.claims[number] = claims
            log.log(logging.INFO if pieces else logging.WARNING, "on the GPU: %s", claims.summary)
            self.on_claims(claims)

    def _init(self, context: int, params: int, size: int) -> int:
        """The number of a new partition; zero if it cannot be, which `_prepare` makes an error."""
        number = 0
        with self._guard(context):
            claim, piece = self._claiming[context], Piece.at(params)
            partition = claim.ready.pop(piece, None)
            partition = partition or Partition(claim.source.part(piece), self._workshop)
            number = next(self._numbers)
            self._partitions[number] = partition
        return number

    def _free(self, context: int, number: int | None) -> None:
        with Guard(lambda error: log.warning("a partition was not freed: %s", error)):
            partition = self._partitions.pop(number or 0, None)
            if partition is not None:
                partition.close()

    def _prepare(self, context: int, node: int) -> int:
        with self._guard(context) as guard:
            self._partition(node).prepare(Host(context))
        return guard.status

    def _invoke(self, context: int, node: int) -> int:
        with self._guard(context) as guard:
            self._partition(node).invoke(Context.from_address(context).tensors)
        return guard.status

    def _partition(self, node: int) -> Partition:
        number = Node.from_address(node).user_data or 0
        if number not in self._partitions:
            raise DeviceError(
                "a partition could not be set up",
                str(self.last_error or "nobody has asked for it"),
                "run without the delegate, and report this with the model",
            )
        return self._partitions[number]
