from typing import TypedDict

class PoolState(TypedDict):
    used_bytes: int
    reserved_bytes: int
    peak_used_bytes: int
    peak_reserved_bytes: int
    release_threshold: int

class DeviceState(TypedDict):
    id: int
    name: str
    uuid: str
    pci_bus_id: str
    compute_capability: tuple[int, int]
    multiprocessor_count: int
    total_memory: int
    pool: PoolState | None

def driver_version() -> int: ...
def list_devices() -> list[DeviceState]: ...
