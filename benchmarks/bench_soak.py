"""What grows in a long run: a million mixed operations on buffers, streams, events and pinned memory.

    python benchmarks/bench_soak.py [--operations N] [--json FILE]

After a warm-up of a tenth, and then after each tenth, it takes down the host memory of the process, its threads and
open files, the memory that the device has free, and what the pool counts. The run fails where the last values are
larger than those after the warm-up; host memory may have grown by a few bytes per operation, which no leak of an object
in each operation would pass.
"""

import argparse
import gc
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from harness import ROOT, provenance, write_json

sys.path.insert(0, str(ROOT / "tests"))

from soak import Soak

import madspace

# Of host memory: page granularity and arenas of the allocators. A Python object has 50 bytes and more.
TOLERANCE = 4 << 20


def taken(device: madspace.Device) -> dict[str, Any]:
    """Take down what there is."""
    gc.collect()
    device.synchronize()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    stats = device.pool.stats()
    return {
        "host_bytes": pages * os.sysconf("SC_PAGE_SIZE"),
        "open_files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "device_free_bytes": device.free_memory,
        "buffers": stats.current_count,
        "reserved_bytes": stats.reserved_bytes,
    }


def growth(first: dict[str, Any], last: dict[str, Any]) -> list[str]:
    """Say what has grown."""
    found = [name for name in ("open_files", "threads", "buffers") if last[name] > first[name]]
    if last["host_bytes"] > first["host_bytes"] + TOLERANCE:
        found.append("host_bytes")
    if last["device_free_bytes"] < first["device_free_bytes"] - (64 << 20):
        found.append("device memory")
    return found


def main() -> int:
    """Run, write and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    device = madspace.Device(0)
    soak = Soak(device)
    step = options.operations // 10
    soak.run(step)
    samples = [taken(device)]
    start = time.perf_counter()
    for _ in range(10):
        soak.run(step)
        samples.append(taken(device))
    seconds = time.perf_counter() - start
    found = growth(samples[0], samples[-1])
    result = {"microseconds_per_operation": seconds / (10 * step) * 1e6, "samples": samples, "grown": found}
    write_json(options.json, {"provenance": provenance("cuda"), "operations": 11 * step, **result})
    soak.end()
    if found:
        print(f"has grown: {', '.join(found)}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
