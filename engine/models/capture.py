"""A whole pass as one call: no Python, and so no interpreter lock, between its operators."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import embedding

Pass = Callable[..., Tensor]
"""A function of tensors and of lists of tensors."""
_jit: Any = torch.jit  # untyped
_cuda: Any = torch.cuda
_GRAPHS = 32
"""CUDA graphs held: two or three widths, each at the newest few lengths of two caches."""


class Capture(Protocol):
    """Runs a pass, from its second time on as one call."""

    def __call__(self, key: Hashable, whole: Pass, inputs: Sequence[Tensor], held: Sequence[Any]) -> Tensor:
        """``whole(*inputs, *held)``.

        Args:
            key: passes of one key run the same operators.
            inputs: may be other tensors at each call.
            held: lists of tensors that stay where they are while the key stays.
        """
        ...


class Uncaptured:
    """Runs the operators one by one."""

    def __call__(self, key: Hashable, whole: Pass, inputs: Sequence[Tensor], held: Sequence[Any]) -> Tensor:
        return whole(*inputs, *held)


@dataclass(frozen=True, slots=True)
class Layered:
    """A pass in parts: the embedding, layers of one shape, and what comes after the last of them."""

    whole: Pass
    """ids, rows, positions, cos, sin, mask, keys, values -> logits"""
    layer: Pass
    """x, positions, cos, sin, mask, keys and values of the layer, its tensors -> x"""
    end: Pass
    """the rows of x that are asked for, the last tensors -> logits"""
    table: Tensor
    """The embedding."""
    layers: list[list[Tensor]]
    """The tensors of each layer."""
    last: list[Tensor]
    alike: bool
    """Whether the layers differ in nothing but the numbers in their tensors."""

    def __call__(self, *arguments: Any) -> Tensor:
        return self.whole(*arguments)


_traces: dict[Hashable, Pass] = {}


class Traced:
    """Passes by torch.jit, for the CPU: one layer is traced, and the loop over them is a script. Sizes may
    differ from call to call.

    torch never forgets a trace, and one of all layers takes 17 MB. So there is one for all models of a shape,
    and their weights are inputs. It calls traces deprecated; what is to replace them needs a compiler on the
    user's machine.
    """

    def __call__(self, key: Hashable, whole: Pass, inputs: Sequence[Tensor], held: Sequence[Any]) -> Tensor:
        assert isinstance(whole, Layered)
        if not whole.alike:
            return whole(*inputs, *held)
        # The executor that optimises takes 0.3 s more to begin with, and is no faster here. The flag is the
        # thread's own.
        with _jit.optimized_execution(False):
            if key not in _traces:
                _traces[key] = _traced_layers(whole, inputs, held)
            return _traces[key](*inputs, *held, whole.table, whole.layers, whole.last)


def _traced_layers(whole: Layered, inputs: Sequence[Tensor], held: Sequence[Any]) -> Pass:
    ids, rows, *places = inputs
    x = embedding(ids, whole.table)
    keys, values = (tensors[0] for tensors in held)
    layer = traced(whole.layer, (x, *places, keys, values, whole.layers[0]))
    end = traced(whole.end, (x.index_select(0, rows), whole.last))

    def loop(
        ids: Tensor, rows: Tensor, positions: Tensor, cos: Tensor, sin: Tensor, mask: Tensor,
        keys: list[Tensor], values: list[Tensor], table: Tensor, layers: list[list[Tensor]],
        last: list[Tensor],
    ) -> Tensor:  # fmt: skip
        x = embedding(ids, table)
        for i in range(len(layers)):
            x = layer(x, positions, cos, sin, mask, keys[i], values[i], layers[i])
        return end(x.index_select(0, rows), last)

    with _undeprecated():
        scripted: Pass = _jit.script(loop)
    return scripted


def traced(function: Pass, arguments: Sequence[Any]) -> Pass:
    """A trace, which holds nothing of what the function holds."""
    cell = [function]

    def run(*arguments: Any) -> Tensor:
        return cell[0](*arguments)

    with torch.no_grad(), _undeprecated():
        found: Pass = _jit.trace(run, tuple(arguments), check_trace=False)
    cell.clear()  # the trace holds on to what it was made of
    return found


@contextmanager
def _undeprecated() -> Iterator[None]:
    # Filters of warnings are of all threads: they are touched for a new trace only, not at every pass.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


class Graphed:
    """CUDA graphs: a pass costs the host one launch.

    Inputs are copied into tensors that stay in place, and the result is copied out, as the next replay
    overwrites it.

    Args:
        record: runs a function once and returns what runs it again.
    """

    def __init__(self, record: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
        self._record = record
        self._graphs: OrderedDict[Hashable, tuple[list[Tensor], list[Tensor], Callable[[], None]]]
        self._graphs = OrderedDict()

    def __call__(self, key: Hashable, whole: Pass, inputs: Sequence[Tensor], held: Sequence[Any]) -> Tensor:
        shapes = tuple(tensor.shape for tensor in inputs)
        full_key = (key, shapes, _places(held))
        if full_key not in self._graphs:
            while len(self._graphs) >= _GRAPHS:
                self._graphs.popitem(last=False)
            self._graphs[full_key] = self._recorded(whole, inputs, held)
        self._graphs.move_to_end(full_key)
        static, result, replay = self._graphs[full_key]
        for tensor, fresh in zip(static, inputs, strict=True):
            tensor.copy_(fresh)
        replay()
        return result[0].clone()

    def _recorded(
        self, whole: Pass, inputs: Sequence[Tensor], held: Sequence[Any]
    ) -> tuple[list[Tensor], list[Tensor], Callable[[], None]]:
        static = [tensor.clone() for tensor in inputs]
        result: list[Tensor] = []

        def run() -> None:
            result[:] = [whole(*static, *held)]

        return static, result, self._record(run)


def _places(held: Sequence[Any]) -> Hashable:
    """Where tensors lie. Of every one: memory that a cache gave back may serve another cache in part."""
    return tuple((tensors[0].stride(), *(tensor.data_ptr() for tensor in tensors)) for tensors in held)


class _Recorder:
    """Records CUDA graphs of one device that share one pool of memory."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = _cuda.graph_pool_handle()

    def __call__(self, run: Callable[[], None]) -> Callable[[], None]:
        # A stream belongs to the device that is current, and one of another device would record nothing.
        with _cuda.device(self._device):
            return self._recorded(run)

    def _recorded(self, run: Callable[[], None]) -> Callable[[], None]:
        # Kernels are chosen and compiled at their first run, which no graph may contain.
        aside = _cuda.Stream()
        aside.wait_stream(_cuda.current_stream())
        with _cuda.stream(aside):
            run()
            run()
        _cuda.current_stream().wait_stream(aside)
        graph = _cuda.CUDAGraph()
        # What other threads ask of the device meanwhile, such as its free memory, spoils nothing.
        with _cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            run()
        replay: Callable[[], None] = graph.replay
        return replay


def capture_for(device: torch.device) -> Capture:
    """The capture that a device has."""
    if device.type == "cpu":
        return Traced()
    return Graphed(_Recorder(device)) if device.type == "cuda" else Uncaptured()
