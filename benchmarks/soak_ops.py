"""A million calls of the ops on arrays of every library, after which memory and handles must be what they were.

    python benchmarks/soak_ops.py [--device cpu] [--operations N] [--seed S] [--json FILE] [--quick]

Mappings, gradients, Kimi Delta Attention and exchange, with and without `out`, on Tensors and on the arrays of NumPy,
torch and CuPy, in random order on several streams; some calls are refused. The first tenth fills caches; what the
process, the pool and the device hold is noted then and again at the end, both times with nothing of the run alive.
`handles` counts what the package has open: buffers, streams, events, pinned memory, graphs, modules. Exit status 1
where a figure has grown past its limit.
"""

import contextlib
import gc
import importlib
import importlib.util
import os
import random
import sys
from collections.abc import Callable
from typing import Any

os.environ["MADSPACE_LEAK_CHECK"] = "1"  # read by the import below: what has a handle is counted from then on

import ml_dtypes
import numpy as np
import soak

import madspace
from madspace.bench.command import write
from madspace.bench.provenance import provenance
from madspace.core._leaks import leftovers

N_EVENTS = 64
N_KEPT = 16
TOKENS, HEADS, CHANNELS = 20, 2, 64
BF16 = np.dtype(ml_dtypes.bfloat16)
LIMITS = soak.LIMITS | {"handles": 0}


class Library:
    """Arrays of one library: how they are made, and inputs and outputs of the ops made of them."""

    def __init__(self, name: str, put: Callable[[Any], Any]) -> None:
        rng = np.random.default_rng(1)
        self.name, self.put = name, put
        fixed = [np.full(N_EVENTS, x) for x in (500.0, 173.0, 100.0, 0.0)]
        self.inputs = [put(x) for x in (*(0.1 + 0.8 * rng.random((5, N_EVENTS))), *fixed)]
        self.out = [put(np.zeros((N_EVENTS, 4))) for _ in range(5)] + [put(np.zeros(N_EVENTS))]
        self.attention: dict[str, Any] = {}

    def attend_on(self, put: Callable[[Any], Any]) -> None:
        """Make the arrays of an attention call, which are bfloat16."""
        rng = np.random.default_rng(2)
        shape = (1, TOKENS, HEADS, CHANNELS)
        arrays = {name: rng.standard_normal(shape).astype(BF16) for name in ("q", "k", "v", "g", "out")}
        arrays["beta"] = rng.standard_normal(shape[:3]).astype(BF16)
        arrays |= {"A_log": np.zeros(HEADS, np.float32), "dt_bias": np.zeros((HEADS, CHANNELS), np.float32)}
        arrays["final_state"] = np.zeros((1, HEADS, CHANNELS, CHANNELS), np.float32)
        self.attention = {name: put(x) for name, x in arrays.items()} | {"scale": 0.125, "lower_bound": -5.0}


def libraries(device: madspace.Device | None) -> dict[str, Library]:
    """Return the libraries that are installed and have arrays on the device, None for the CPU."""
    where: Any = "cpu" if device is None else device

    def own(x: Any) -> Any:
        return madspace.asarray(x, device=where)

    found = {"tensors": Library("tensors", own)}
    found["tensors"].attend_on(own)
    if device is None:
        found["numpy"] = Library("numpy", lambda x: x)
    if importlib.util.find_spec("torch") is not None:
        torch: Any = importlib.import_module("torch")
        if device is None or torch.cuda.is_available():
            place = "cpu" if device is None else f"cuda:{device.id}"

            def theirs(x: Any) -> Any:
                if x.dtype == BF16:
                    return torch.from_numpy(x.view(np.int16)).to(place).view(torch.bfloat16)
                return torch.from_numpy(x).to(place)

            found["torch"] = Library("torch", theirs)
            found["torch"].attend_on(theirs)
    if device is not None and importlib.util.find_spec("cupy") is not None:
        cupy: Any = importlib.import_module("cupy")
        found["cupy"] = Library("cupy", cupy.asarray)
    return found


class OpsSoak:
    """What the ops are called with, and the calls."""

    def __init__(self, device: madspace.Device | None, seed: int) -> None:
        self.device, self.random = device, random.Random(seed)
        self.mapping = madspace.TPropagatorMapping([0, 1], 0.8)
        self.streams = [] if device is None else [madspace.Stream(device) for _ in range(3)]
        self.libraries = libraries(device)
        size = madspace.kda.get_workspace_size(TOKENS, HEADS)
        self.workspace = madspace.Workspace(size, "cpu" if device is None else device)
        self.kept: list[Any] = []
        # How often each comes, relative to the others.
        self.operations: dict[Callable[[], None], int] = {}
        for name, library in self.libraries.items():
            self.operations[self.call_of(self.map_out, library)] = 12 if name != "cupy" else 6
            self.operations[self.call_of(self.map_new, library)] = 6 if name != "cupy" else 3
            self.operations[self.call_of(self.exchange, library)] = 6
            if library.attention:
                self.operations[self.call_of(self.attend, library)] = 4
        self.operations |= {self.attend_without: 1, self.take_gradients: 1, self.draw: 2, self.refused: 1}
        if "torch" in self.libraries:
            self.set_up_torch()

    def set_up_torch(self) -> None:
        """Add what only torch has: its streams, and modules with gradients."""
        self.torch: Any = importlib.import_module("torch")
        module: Any = importlib.import_module("madspace.torch").FunctionModule
        if self.device is not None:
            self.torch_streams = [self.torch.cuda.Stream() for _ in range(2)]
            self.operations[self.on_a_stream_of_torch] = 6
        self.module = module(self.mapping.forward_function())
        arrays = self.libraries["torch"].inputs
        self.leaves = [x.clone().requires_grad_() for x in arrays[:5]]
        self.operations[self.go_both_ways] = 1

    def call_of(self, call: Callable[[Library], None], library: Library) -> Callable[[], None]:
        """Return a call with a library's arrays."""
        return lambda: call(library)

    def run(self, n: int) -> None:
        """Do a number of calls, and let go of everything."""
        chosen = self.random.choices(list(self.operations), list(self.operations.values()), k=n)
        for number, operation in enumerate(chosen):
            operation()
            if self.device is not None and number % 500 == 499:
                self.device.synchronize()  # or memory that is free in stream order only would pile up
        self.clear()

    def clear(self) -> None:
        """Drop what the calls have kept, and wait until the device has done so as well."""
        self.kept.clear()
        gc.collect()
        madspace.release_inputs(wait=True)
        madspace.PinnedBuffer.trim()
        if self.device is None:
            return
        self.device.synchronize()
        self.device.pool.trim()
        if "torch" in self.libraries:
            self.torch.cuda.empty_cache()
        if "cupy" in self.libraries:
            importlib.import_module("cupy").get_default_memory_pool().free_all_blocks()

    def end(self) -> None:
        """Give everything back, what the calls work on as well."""
        self.libraries, self.operations = {}, {}
        self.workspace.close()
        self.clear()
        for stream in self.streams:
            stream.close()

    def keep(self, thing: Any) -> None:
        """Let results live for a while."""
        self.kept.append(thing)
        if len(self.kept) > N_KEPT:
            del self.kept[self.random.randrange(N_KEPT)]

    def stream(self) -> madspace.Stream | None:
        """Choose a stream, or none."""
        return self.random.choice([*self.streams, None]) if self.streams else None

    def map_out(self, library: Library) -> None:
        """Map into arrays that are there."""
        self.mapping.map_forward(library.inputs, out=library.out, stream=self.stream())

    def map_new(self, library: Library) -> None:
        """Map into new arrays."""
        self.keep(self.mapping.map_forward(library.inputs, stream=self.stream()))

    def draw(self) -> None:
        """Map random numbers that are made where they are used."""
        tensors = self.libraries["tensors"]
        inputs = [None] * 5 + tensors.inputs[5:]
        self.keep(self.mapping.map_forward(inputs, seed=self.random.randrange(9), stream=self.stream()))

    def take_gradients(self) -> None:
        """Go back from gradients of the results to those of the random numbers."""
        tensors = self.libraries["tensors"]
        wanted = [True] * 5 + [False] * 4
        with self.block():
            self.keep(self.mapping.vjp(tensors.inputs, [], tensors.out, input_requires_grad=wanted))

    def block(self) -> contextlib.AbstractContextManager[Any]:
        """Return a block with a stream, or with none."""
        stream = self.stream()
        return contextlib.nullcontext() if stream is None else madspace.stream(stream)

    def attend(self, library: Library) -> None:
        """Compute attention into arrays that are there, with a workspace."""
        madspace.kda.fwd(**library.attention, workspace=self.workspace, stream=self.stream())

    def attend_without(self) -> None:
        """Compute attention into new arrays."""
        given = self.libraries["tensors"].attention | {"out": None}
        self.keep(madspace.kda.fwd(**given, stream=self.stream()))

    def exchange(self, library: Library) -> None:
        """Take an array in, and give its memory back to a library."""
        source = self.random.choice([*library.inputs, *library.out])
        tensor = madspace.from_dlpack(source, stream=self.stream())
        if "torch" in self.libraries and self.random.random() < 0.5:
            self.keep(tensor.torch())
        else:
            self.keep(madspace.asarray(tensor)[1:])

    def refused(self) -> None:
        """Call with one output too few, and with one on top of another."""
        tensors = self.libraries["tensors"]
        for out in (tensors.out[:-1], [*tensors.out[:4], tensors.out[0], tensors.out[5]]):
            try:
                self.mapping.map_forward(tensors.inputs, out=out, stream=self.stream())
            except (madspace.ShapeError, ValueError):
                continue
            raise AssertionError("a call was not refused")

    def on_a_stream_of_torch(self) -> None:
        """Map on a stream that torch has chosen."""
        with self.torch.cuda.stream(self.random.choice(self.torch_streams)):
            self.keep(self.mapping.map_forward(self.libraries["torch"].inputs))

    def go_both_ways(self) -> None:
        """Run a module and its gradients."""
        theirs = self.libraries["torch"]
        results = self.module(*self.leaves, *theirs.inputs[5:])
        self.keep(self.torch.autograd.grad(results, self.leaves, theirs.out))


def holdings(device: madspace.Device | None) -> dict[str, int]:
    """Return what the process holds, handles as well."""
    return soak.holdings(device) | {"handles": sum(count for _, _, count, _ in leftovers())}


def main(arguments: list[str] | None = None) -> int:
    """Run, compare and print; the exit status is 1 where something has grown."""
    parser = soak.options_of(__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], help="cuda where there is one")
    options = parser.parse_args(arguments)
    where = options.device or ("cuda" if madspace.is_available() else "cpu")
    device = madspace.Device(0) if where == "cuda" else None
    mix = OpsSoak(device, options.seed)
    print(f"{where}: {', '.join(mix.libraries)}")
    result = soak.compare(mix.run, options.operations, lambda: holdings(device), LIMITS)
    if options.json:
        about = {"provenance": provenance(where), "seed": options.seed, "libraries": list(mix.libraries)}
        write(options.json, about | result)
    mix.end()
    return 1 if result["grown"] else 0


if __name__ == "__main__":
    sys.exit(main())
