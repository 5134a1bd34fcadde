"""The gate before every driver call: shut at interpreter exit and in forked children."""
import atexit
import sys
import time

from libcpp.atomic cimport atomic

from madspace.errors import DriverError, ForkError


cdef extern from "<pthread.h>" nogil:
    int pthread_atfork(void (*prepare)() noexcept, void (*parent)() noexcept, void (*child)() noexcept)


# Read by destructors in any thread, also without the GIL, also while the interpreter comes down: no Python object.
cdef atomic[int] state_
cdef atomic[int] fork_watched


cdef int state() noexcept nogil:
    return state_.load()


cdef bint is_closed() noexcept nogil:
    return state_.load() != READY


cdef void in_forked_child() noexcept nogil:
    # Runs between fork() and its return: no lock, no Python, no driver.
    if state_.load() != FRESH:
        state_.store(FORKED)


def _close_gate():
    move(READY, CLOSED)
    # A daemon thread that has just passed the gate, and may have lost the processor there, gets the time to be done
    # with the one call that it makes behind it.
    if len(sys._current_frames()) > 1:
        time.sleep(0.02)


cdef int watch_fork() except -1:
    # Before cuInit, so that a child forked by another thread in the midst of it is marked as well.
    if fork_watched.exchange(1) == 0 and pthread_atfork(NULL, NULL, in_forked_child) != 0:
        fork_watched.store(0)
        raise MemoryError("pthread_atfork: no memory for the fork handler")
    move(FRESH, STARTING)
    return 0


cdef void give_up() noexcept nogil:
    move(STARTING, FRESH)


cdef void move(int before, int after) noexcept nogil:
    # CLOSED and FORKED are final, whatever happens at the same time.
    state_.compare_exchange_strong(before, after)


cdef int open_gate() except -1:
    # Registered late, so that it runs before the exit hooks of everything that was imported earlier: what those destroy
    # no longer reaches a driver that may be gone already.
    atexit.register(_close_gate)
    move(STARTING, READY)
    return 0


cdef int refuse(const char* call) except -1 with gil:
    cdef str name = call.decode()
    cdef int now = state_.load()
    if now == FORKED:
        raise ForkError(
            f"{name}: this process was forked after the CUDA driver had started in its parent, which the driver does "
            "not survive: start workers with the 'spawn' or 'forkserver' method, or fork before the first device call"
        )
    if now == CLOSED:
        raise DriverError(
            f"{name}: CUDA_ERROR_DEINITIALIZED (4): the interpreter is exiting, device calls are over",
            4, "CUDA_ERROR_DEINITIALIZED", name,
        )
    raise DriverError(
        f"{name}: CUDA_ERROR_NOT_INITIALIZED (3): the driver was not started", 3, "CUDA_ERROR_NOT_INITIALIZED", name,
    )
