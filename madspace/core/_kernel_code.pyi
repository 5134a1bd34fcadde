from typing import NamedTuple, SupportsIndex, TypeAlias

from madspace.core.device import Device
from madspace.core.module import Module

Extent: TypeAlias = SupportsIndex | tuple[SupportsIndex, ...]

class KernelAttributes(NamedTuple):
    registers: int
    shared_bytes: int
    local_bytes: int
    max_threads_per_block: int
    max_dynamic_shared_bytes: int
    constant_bytes: int
    ptx_version: int
    binary_version: int
    shared_carveout: int

class Occupancy(NamedTuple):
    blocks_per_multiprocessor: int
    fraction: float
    suggested_block: int
    suggested_grid: int
    active_clusters: int | None

class KernelCode:
    @property
    def module(self) -> Module: ...
    @property
    def name(self) -> str: ...
    @property
    def handle(self) -> int: ...
    @property
    def param_sizes(self) -> tuple[int, ...]: ...
    def load(self, device: Device | SupportsIndex | str | None = None) -> None: ...
    def attributes(self, device: Device | SupportsIndex | str | None = None) -> KernelAttributes: ...
    def set_max_dynamic_shared(self, nbytes: int, device: Device | SupportsIndex | str | None = None) -> None: ...
    def set_shared_carveout(self, percent: int, device: Device | SupportsIndex | str | None = None) -> None: ...
    def allow_large_clusters(self, device: Device | SupportsIndex | str | None = None) -> None: ...
    def occupancy(
        self,
        block: Extent,
        *,
        shared: SupportsIndex = 0,
        cluster: Extent | None = None,
        device: Device | SupportsIndex | str | None = None,
    ) -> Occupancy: ...
