"""fourfold inside LiteRT: a delegate for ai_edge_litert, tflite_runtime and TensorFlow.

interpreter = Interpreter(path, experimental_delegates=[GpuDelegate(path)])
"""

from __future__ import annotations

import os
from collections.abc import Callable

from fourfold import backends
from fourfold.config import Config
from fourfold.device import DeviceInfo
from fourfold.errors import Refusal, UnsupportedError
from fourfold.integrations.delegate.claim import Claims
from fourfold.integrations.delegate.claimable_graph import ClaimableGraph, read_claimable
from fourfold.integrations.delegate.native import NativeDelegate
from fourfold.integrations.delegate.options import GpuOptions, Preference, Priority
from fourfold.integrations.delegate.session_factory import SessionFactory
from fourfold.runtime.device_array import DeviceArray
from fourfold.support.log import Log

__all__ = ["Claims", "GpuDelegate", "GpuOptions"]
log = Log("integrations.delegate")


class GpuDelegate:
    """Runs supported nodes of a model on the GPU, inside a TFLite interpreter.

    Further options are those of TFLite's own GPU delegate; see `GpuOptions`.

    Args:
        model: The file or bytes that the interpreter uses.
        device: The device, as in `Session`.
        on_fallback: Called with name, op and reason of every node that stays on the interpreter.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes,
        device: str | int | DeviceInfo | None = None,
        on_fallback: Callable[[Refusal], None] | None = None,
        *,
        precision_loss_allowed: bool | None = None,
        quantized_models_allowed: bool = True,
        inference_preference: Preference = "fast_single_answer",
        inference_priority1: Priority = "max_precision",
        inference_priority2: Priority = "auto",
        inference_priority3: Priority = "auto",
        serialization_dir: str | os.PathLike[str] | None = None,
        model_token: str | None = None,
        max_delegated_partitions: int = 1,
        first_delegate_node: int = 0,
        last_delegate_node: int | None = None,
        allow_buffer_handle_output: bool = False,
    ) -> None:
        self.options = GpuOptions(
            precision_loss_allowed=precision_loss_allowed,
            quantized_models_allowed=quantized_models_allowed,
            inference_preference=inference_preference,
            inference_priority1=inference_priority1,
            inference_priority2=inference_priority2,
            inference_priority3=inference_priority3,
            serialization_dir=serialization_dir,
            model_token=model_token,
            max_delegated_partitions=max_delegated_partitions,
            first_delegate_node=first_delegate_node,
            last_delegate_node=last_delegate_node,
            allow_buffer_handle_output=allow_buffer_handle_output,
        )
        config = Config.from_environment()
        self.device = backends.find_device(config.device if device is None else device)
        self._model, self._on_fallback = model, on_fallback
        self._native = NativeDelegate(self._graph, SessionFactory(self.device, self.options))
        self._native.on_claims = self._report_fallbacks
        self._graphs: dict[int, ClaimableGraph | None] = {0: self._read_first()}

    @property
    def precision(self) -> str:
        return self.options.precision

    @property
    def claims(self) -> Claims | None:
        """The claimed nodes of the main graph, and reasons for the others; None before the
        first claim.
        """
        return self._native.claims.get(0)

    @property
    def last_error(self) -> BaseException | None:
        """The last exception inside the interpreter, or the reason why no node was claimed."""
        return self._native.last_error

    @property
    def context_handle(self) -> int:
        """The device context that bound memory must belong to, as in `Session`."""
        return backends.backend_of(self.device).context_handle(self.device)

    def output(self, tensor: str | int) -> DeviceArray:
        """Return an output of the last `invoke()` in device memory.

        The output must be bound, or `allow_buffer_handle_output` set.

        Args:
            tensor: Name or index of the output.
        """
        return self._native.device_tensors.output(tensor)

    def ensure_readable(self, tensor: str | int) -> None:
        """Copy an output in device memory to the interpreter, so that `get_tensor` returns it.

        This is TFLite's EnsureTensorDataIsReadable.

        Args:
            tensor: Name or index of the output.
        """
        self._native.device_tensors.ensure_readable(tensor)

    def bind_buffer_to_input(self, tensor: str | int, memory: object) -> None:
        """Read an input from device memory from now on instead of the interpreter.

        Args:
            tensor: Name or index of the input.
            memory: What `Session.bind` takes; None ends the binding.
        """
        self._native.device_tensors.bind_input(tensor, memory)

    def bind_buffer_to_output(self, tensor: str | int, memory: object) -> None:
        """Write an output to device memory from now on.

        The interpreter gets a copy unless `allow_buffer_handle_output` is set.

        Args:
            tensor: Name or index of the output.
            memory: What `Session.bind` takes; None ends the binding.
        """
        self._native.device_tensors.bind_output(tensor, memory)

    def _get_native_delegate_pointer(self) -> int:
        """Return the address of the TfLiteDelegate. Interpreters call this."""
        return self._native.address

    def _read_first(self) -> ClaimableGraph | None:
        """Read the main graph; None if its inputs are not supported on a GPU."""
        try:
            return read_claimable(self._model, self.options)
        except UnsupportedError as error:
            self._native.last_error = error
            log.warning("the model does not run on the GPU: %s", error)
            return None

    def _graph(self, number: int) -> ClaimableGraph | None:
        if number not in self._graphs:
            self._graphs[number] = read_claimable(self._model, self.options, number)
        return self._graphs[number]

    def _report_fallbacks(self, claims: Claims) -> None:
        if self._on_fallback is not None:
            for refusal in claims.refusals:
                self._on_fallback(refusal)
