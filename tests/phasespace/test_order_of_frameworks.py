"""Calls on arrays of several packages, each on a stream of its own, in drawn order while all streams are late."""

import contextlib
import gc
import random
import sys
import types

import numpy as np
import pytest
from frameworks import framework
from program_points import function_of

import madspace
from madspace import FunctionRuntime, Stream

pytestmark = pytest.mark.fake
N = 40
_kept = []  # frameworks never destroy a stream


class CupyArray:
    """What CuPy's arrays tell, over a Tensor."""

    __module__ = "cupy"

    def __init__(self, tensor):
        self.tensor, self.dtype, self.shape, self.strides = tensor, tensor.dtype, tensor.shape, (8,)
        self.data = types.SimpleNamespace(ptr=tensor.ptr, device_id=tensor.device.id)


class World:
    """Arrays of one length and their values: of two frameworks, of CuPy, and Tensors."""

    def __init__(self, fake, device, monkeypatch, seed):
        self.draw, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.fake, self.device = fake, device
        self.streams = [Stream(device) for _ in range(4)]
        _kept.append(self.streams)
        self.cupy = self.draw.choice(self.streams[:3])
        homes = [self.streams[0], self.draw.choice(self.streams[:2]), self.cupy, None]
        module = types.ModuleType("cupy")
        module.cuda = types.SimpleNamespace(get_current_stream=lambda _: types.SimpleNamespace(ptr=self.cupy.handle))
        module.from_dlpack, module.ndarray = self.cupy_array, CupyArray
        monkeypatch.setitem(sys.modules, "cupy", module)
        # A new class each time: what is known about one belongs to one module of CuPy.
        self.cupy_kind = type("ndarray", (CupyArray,), {"__module__": "cupy"})
        frameworks = [framework(current={"stream": home.handle})[0] for home in homes[:2]]
        for stream in (*self.streams, device.default_stream):
            fake.defer(stream.handle)
        self.pool = []
        for kind, home in zip([*frameworks, self.cupy_kind, None], homes, strict=True):
            for _ in range(3):
                value = self.numbers.random(N)
                where = home or self.draw.choice(self.streams)
                tensor = madspace.asarray(value, device="cuda", stream=where)
                self.pool.append([tensor if kind is None else kind(tensor), value.copy()])

    def cupy_array(self, tensor):
        array = self.cupy_kind(tensor)
        array.capsule = tensor.__dlpack__(stream=self.cupy.handle, max_version=(1, 1))
        return array

    def step(self, runtime):
        draw = self.draw
        first, second, third, fourth = draw.sample(self.pool, 4)
        if draw.random() < 0.2:
            second = first
        found = first[1] - first[1] * second[1], first[1] * second[1]
        stream, block = (draw.choice([None, None, None, *self.streams]) for _ in range(2))
        given = draw.choice([None, [third[0], fourth[0]], [third[0], None]])
        if stream is not None and draw.random() < 0.3:
            stream = stream.handle
        with contextlib.nullcontext() if block is None else madspace.stream(block):
            results = runtime.arrays([first[0], second[0]], out=given, stream=stream)
        if given is not None:
            third[1] = found[0]
        if given is not None and given[1] is not None:
            fourth[1] = found[1]
        else:
            fourth[:] = results[1], found[1]
        if draw.random() < 0.3:
            self.fake.run(draw.choice(self.streams).handle, draw.randrange(1, 4))
        if draw.random() < 0.2:
            gc.collect()

    def end(self):
        streams = [*self.streams, self.device.default_stream]
        self.draw.shuffle(streams)
        for stream in streams:
            self.fake.run(stream.handle)
            self.fake.defer(stream.handle, False)


@pytest.mark.parametrize("seed", range(40))
def test_results_are_those_of_the_order_of_the_calls(device, fake, program_kernels, monkeypatch, seed):
    function = function_of([madspace.batch_float] * 2, lambda b, x, y: [b.sub(x, b.mul(x, y)), b.mul(x, y)])
    runtime = FunctionRuntime(function)
    world = World(fake, device, monkeypatch, seed)
    for _ in range(40):
        world.step(runtime)
    world.end()
    for array, value in world.pool:
        tensor = array if isinstance(array, madspace.Tensor) else array.tensor
        np.testing.assert_allclose(tensor.numpy(), value, rtol=1e-12, atol=1e-290)
