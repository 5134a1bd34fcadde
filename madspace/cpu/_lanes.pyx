"""Host kernels: found by name for this processor's instruction set, run over a thread pool."""

import operator
import os
import warnings

from madspace.errors import MadspaceWarning

from libc.stdint cimport int64_t


cdef extern from "host_tables.h" namespace "madspace" nogil:
    cdef struct HostKernel:
        const char* name
        HostRun run
    int best_isa_level()
    const HostKernel* find_host_kernel(const char* name, int level)


cdef extern from "thread_pool.h" namespace "madspace" nogil:
    int available_cores()
    cdef cppclass SharedPool:
        @staticmethod
        void set_threads(int n)
        @staticmethod
        int threads()
        @staticmethod
        void run(HostRun run, const void* args, long long n, long long grain)


MAX_THREADS = 1024

_ISA_LEVELS = {"base": 0, "v3": 3, "v4": 4}
_ISA_NAMES = {level: name for name, level in _ISA_LEVELS.items()}

# Events per piece of work: 16 blocks of 64 lanes take 20 to 100 us, far above the cost of handing a piece out, and
# smaller batches stay on the calling thread.
cdef int64_t GRAIN = 1024

cdef int _level = best_isa_level()


cdef class HostFunction:
    """A host kernel for this processor."""

    def __repr__(self):
        return f"<madspace HostFunction {self.name} ({self.isa})>"


cdef HostFunction host_function(str name):
    cdef bytes encoded = name.encode()
    cdef const HostKernel* kernel = find_host_kernel(encoded, _level)
    if kernel == NULL:
        raise LookupError(f"no host kernel is named {name!r}")
    cdef HostFunction function = HostFunction.__new__(HostFunction)
    function.run_ = kernel.run
    function.name = name
    function.isa = isa()
    return function


cdef void run_events(HostRun run, const void* args, int64_t n) noexcept nogil:
    SharedPool.run(run, args, n, GRAIN)


cdef void run_pieces(HostRun run, const void* args, int64_t n, int64_t grain) noexcept nogil:
    SharedPool.run(run, args, n, grain)


cdef int n_threads() noexcept nogil:
    return SharedPool.threads()


def host_kernel_address(str name):
    """Return the address of a host kernel, ``void (*)(const void* args, long long begin, long long end)``.

    For tests and tools that call the kernel themselves.
    """
    return <size_t>host_function(name).run_


def isa():
    """Return the instruction set in use: "base", "v3" (x86-64-v3, AVX2) or "v4" (x86-64-v4, AVX-512)."""
    return _ISA_NAMES[_level]


def get_num_threads():
    """Return how many threads CPU calls are split over."""
    return SharedPool.threads()


def set_num_threads(n):
    """Set how many threads CPU calls are split over, for the whole process.

    Parameters
    ----------
    n : int
        1 to 1024, or 0 for one per available core (the default, also set by ``MADSPACE_NUM_THREADS``).

    Raises
    ------
    ValueError
        If n is negative or above 1024.
    """
    number = operator.index(n)
    if not 0 <= number <= MAX_THREADS:
        raise ValueError(f"n: expected 0 to {MAX_THREADS}, got {number}")
    SharedPool.set_threads(number)


cdef int _read_environment() except -1:
    global _level
    threads = os.environ.get("MADSPACE_NUM_THREADS", "").strip()
    if threads:
        if threads.isdecimal():
            # As a float, which takes any number of digits.
            if float(threads) > MAX_THREADS:
                warnings.warn(f"MADSPACE_NUM_THREADS: expected 0 to {MAX_THREADS}, got {threads}; "
                              f"{MAX_THREADS} are used",
                              MadspaceWarning)
            SharedPool.set_threads(<int>min(float(threads), <double>MAX_THREADS))
        else:
            warnings.warn(f"MADSPACE_NUM_THREADS: expected a whole number, got {threads!r}; ignored", MadspaceWarning)
    name = os.environ.get("MADSPACE_CPU_ISA", "").strip()
    if name:
        if _ISA_LEVELS.get(name, 99) <= best_isa_level():
            _level = _ISA_LEVELS[name]
        else:
            warnings.warn(
                f"MADSPACE_CPU_ISA: expected one of {sorted(_ISA_LEVELS)} that this processor has, got {name!r}; "
                "ignored",
                MadspaceWarning,
            )
    return 0


_read_environment()
