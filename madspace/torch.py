"""Functions as torch modules, with gradients. torch is imported when `FunctionModule` is first asked for."""

import functools
from typing import Any

from madspace.core.creation import asarray
from madspace.phasespace.context import Context, default_context
from madspace.phasespace.graph import Graph
from madspace.phasespace.runtime import FunctionRuntime

__all__ = ["FunctionModule"]

FunctionModule: Any


def __getattr__(name: str) -> Any:
    if name == "FunctionModule":
        return _function_module()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@functools.cache
def _function_module() -> Any:
    """Return the class, which exists as soon as torch is imported."""
    try:
        import torch
    except ImportError as error:
        raise ImportError("madspace.torch needs torch, which is not installed: pip install torch") from error

    class FunctionModule(torch.nn.Module):
        """A function as a module: tensors in, tensors out, gradients by one program backwards.

        Parameters
        ----------
        function : Function
            What to run.
        context : Context, optional
            Where its globals are; the default context if left out.

        Attributes
        ----------
        global_params : torch.nn.ParameterDict
            The globals, a dot in a name turned into a colon; they share the memory that the function reads, on the
            context's device. Those that were defined with ``requires_grad`` get gradients.

        Raises
        ------
        UnsupportedOpError
            The function uses an operation that cannot be run.
        ValueError
            At a call: a global of the context was made anew, or a parameter was moved to other memory (`to`), so that
            the two are not the same any more.
        DeviceMismatchError
            At a call: the tensors are not on the context's device, and the function has globals.

        Notes
        -----
        Calling it takes float64 or int32 tensors, one per argument (see `FunctionRuntime` for their shapes), and
        returns a tensor, or a tuple where there are several results; those of int32 have no gradients. The backward
        pass computes what it needs again and keeps only the tensors that came in, so that they must not be changed in
        between, which torch checks. It can be run several times, and the module may be used several times before.
        Gradients of gradients are not there: asking for them raises RuntimeError.
        It runs where its tensors are, on a GPU on torch's current stream, and the backward pass on that of the forward
        one. There the kernel of the gradients is compiled at its first use (NVRTC has to be installed), so run both
        once before ``with torch.cuda.graph(..)``, which takes both. Results and gradients are of torch's allocator, so
        that ``record_stream`` counts, but in a capture of madspace, whose graph keeps them. A global's gradient there
        is the sum of one of each event, and takes memory for all of those.
        A step without a derivative between a result and what wants a gradient raises UnsupportedOpError in the backward
        pass.

        Examples
        --------
        >>> import torch
        >>> import madspace
        >>> from madspace.torch import FunctionModule
        >>> module = FunctionModule(madspace.TPropagatorMapping([0]).forward_function())
        >>> r = torch.rand(2, 5, dtype=torch.float64, requires_grad=True)
        >>> *momenta, det = module(*r, *torch.tensor([[100.0], [0.0], [0.0]], dtype=torch.float64))
        >>> det.log().sum().backward()
        >>> r.grad.shape
        torch.Size([2, 5])
        """

        def __init__(self, function: Graph, context: Context | None = None) -> None:
            super().__init__()
            context = default_context() if context is None else context
            self.runtime = FunctionRuntime(function, context)
            self.runtime._allocate_by(_empty)
            self._context = context
            self._global_names = [name for name, _ in function.globals]
            values = [*function.inputs, *(value for _, value in function.globals)]
            self._places = [value.local_index for value in values]
            self.global_params = torch.nn.ParameterDict(
                {
                    name.replace(".", ":"): torch.nn.Parameter(
                        context.get_global(name).torch(), context.global_requires_grad(name)
                    )
                    for name, _ in function.globals
                }
            )

        def forward(self, *args: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
            """Run the function."""
            for i, x in enumerate(args):
                if not isinstance(x, torch.Tensor):
                    raise TypeError(f"argument {i}: expected a torch tensor, got {x!r}")
            params = tuple(self.global_params.values())
            for name, x in zip(self._global_names, params, strict=True):
                if x.data_ptr() != self._context.get_global(name).ptr:
                    key = name.replace(".", ":")
                    raise ValueError(
                        f"global_params[{key!r}]: expected the memory of the context's global, which stays on its "
                        "device; a module is made again after its globals were"
                    )
            if any(x.is_cuda for x in args):
                flags = [*[False] * len(args), *map(self._context.global_requires_grad, self._global_names)]
                spread = _spread((*args, *params), flags)
                args, params = spread[: len(args)], spread[len(args) :]
            if torch.is_grad_enabled() and any(x.requires_grad for x in (*args, *params)):
                results = _Apply.apply(self.runtime, self._places, len(args), *args, *params)
            else:
                results = tuple(map(_as_torch, self.runtime.arrays([x.detach() for x in args])))
            return results[0] if len(results) == 1 else results

    def _empty(shape: tuple[int, ...], is_float: bool, device: int) -> torch.Tensor:
        """Return memory of torch, whose allocator autograd tells on which streams it is used; no other listens."""
        return torch.empty(shape, dtype=torch.float64 if is_float else torch.int32, device=f"cuda:{device}")

    def _as_torch(x: Any) -> torch.Tensor:
        """Return a result, which is of another library only where there is no argument, as a tensor."""
        return x if isinstance(x, torch.Tensor) else asarray(x).torch()

    def _spread(tensors: tuple[torch.Tensor, ...], always: list[bool]) -> tuple[torch.Tensor, ...]:
        """Return views with a place per event where a tensor of length 1 wants a gradient: torch adds them up."""
        batch = max(x.shape[0] if x.dim() else 1 for x in tensors)
        return tuple(
            x.expand(batch, *x.shape[1:]) if (flag or x.requires_grad) and x.dim() and x.shape[0] == 1 else x
            for x, flag in zip(tensors, always, strict=True)
        )

    class _Apply(torch.autograd.Function):
        """The function as a node of torch's graph; globals are inputs, so that torch collects their gradients."""

        @staticmethod
        def forward(
            ctx: Any, runtime: FunctionRuntime, places: list[int], n_args: int, *tensors: torch.Tensor
        ) -> tuple[torch.Tensor, ...]:
            args = [x.detach() for x in tensors[:n_args]]
            outputs, ctx.eval_grad = runtime._arrays_with_grad(args, [x.requires_grad for x in tensors[:n_args]])
            ctx.runtime, ctx.places = runtime, places
            # What the backward pass needs are these tensors themselves; saved this way torch notices if they change.
            ctx.save_for_backward(*tensors)
            ctx.set_materialize_grads(False)
            results = tuple(map(_as_torch, outputs))
            ctx.mark_non_differentiable(*(x for x in results if not x.is_floating_point()))
            return results

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[Any, ...]:
            stored: list[torch.Tensor | None] = [None] * len(ctx.eval_grad)
            for i, x in zip(ctx.places, ctx.saved_tensors, strict=True):
                stored[i] = x.detach()
            given = [None if x is None else x.detach() for x in grads]
            grads_found = ctx.runtime._arrays_backward(given, stored, ctx.eval_grad)
            found = [None if x is None else _as_torch(x) for x in grads_found]
            if torch.is_grad_enabled():
                # Somebody may derive these gradients once more: they must not look like constants.
                sources = [x for x in (*ctx.saved_tensors, *grads) if x is not None]
                wanted = iter(_Last.apply(len(sources), *sources, *(x for x in found if x is not None)))
                found = [None if x is None else next(wanted) for x in found]
            return None, None, None, *found

    class _Last(torch.autograd.Function):
        """Gradients that cannot be derived again: numbers of sources, sources, gradients."""

        @staticmethod
        def forward(ctx: Any, n_sources: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tuple(x.view_as(x) for x in tensors[n_sources:])

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
            raise RuntimeError("FunctionModule: gradients of gradients are not there")

    for kind in (FunctionModule, _Apply, _Last):
        kind.__qualname__ = kind.__name__
    return FunctionModule
