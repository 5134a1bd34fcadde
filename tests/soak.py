"""A long mix of operations, for the test and the benchmark that look for what grows."""

import random
from collections.abc import Callable
from contextlib import suppress

from madspace import Device, Event, PinnedBuffer, Stream

SIZES = (1, 256, 1000, 4096, 65536)
N_KEPT = 64


class Soak:
    """Buffers that come and go, and are used on several streams.

    Parameters
    ----------
    device : Device
        Where.
    seed : int
        Of the choice of operations.
    """

    def __init__(self, device: Device, seed: int = 1) -> None:
        self.device = device
        self.random = random.Random(seed)
        self.streams = [Stream(device) for _ in range(4)]
        self.event = Event(device)
        self.kept = [self._new() for _ in range(N_KEPT)]
        self.operations: list[Callable[[], None]] = [
            self.replace,
            self.replace,
            self.replace,
            self.close,
            self.fill,
            self.fill,
            self.copy,
            self.stage,
            self.order,
            self.change_stream,
        ]

    def _new(self):
        return self.device.pool.allocate(self.random.choice(SIZES), stream=self.random.choice(self.streams))

    def _any(self) -> int:
        return self.random.randrange(N_KEPT)

    def replace(self) -> None:
        """Drop one, take another."""
        self.kept[self._any()] = self._new()

    def close(self) -> None:
        """Close one, take another."""
        i = self._any()
        self.kept[i].close()
        self.kept[i] = self._new()

    def fill(self) -> None:
        """Write on some stream."""
        self.kept[self._any()].fill(1, stream=self.random.choice(self.streams))

    def copy(self) -> None:
        """Copy between two of one size on some stream."""
        source = self.kept[self._any()]
        with suppress(StopIteration):
            target = next(buffer for buffer in self.kept if buffer.nbytes == source.nbytes and buffer is not source)
            target.copy_from(source, stream=self.random.choice(self.streams))

    def stage(self) -> None:
        """Copy through pinned memory that is dropped at once."""
        buffer = self.kept[self._any()]
        PinnedBuffer(buffer.nbytes).copy_to(buffer, stream=self.random.choice(self.streams))

    def order(self) -> None:
        """Record and wait."""
        self.random.choice(self.streams).record(self.event)
        self.random.choice(self.streams).wait(self.event)

    def change_stream(self) -> None:
        """End a stream that buffers were allocated on and used on, once in a while."""
        if self.random.randrange(20) == 0:
            i = self.random.randrange(len(self.streams))
            self.streams[i].close()
            self.streams[i] = Stream(self.device)

    def run(self, n: int) -> None:
        """Do n operations, and wait for the device now and then."""
        for i in range(n):
            self.random.choice(self.operations)()
            if i % 1000 == 999:
                self.device.synchronize()
        self.device.synchronize()

    def end(self) -> None:
        """Give everything back."""
        self.kept.clear()
        for stream in self.streams:
            stream.close()
        self.event.close()
        self.device.synchronize()
        PinnedBuffer.trim()
