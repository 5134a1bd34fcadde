"""Scopes that count the device memory that is allocated and freed while they are active."""
import _thread
import os
from collections import namedtuple
from functools import wraps

from libc.stdint cimport uint64_t

from madspace.core._tally cimport Tally
from madspace.core._watch cimport STATISTICS, watch


cdef extern from *:
    """
    #include <algorithm>
    #include <mutex>
    #include <vector>
    namespace {
    // The active scopes, of all threads. The lock is never held while anything else is waited for.
    struct Scopes {
      std::mutex lock;
      std::vector<madspace::Tally*> active;
      void add(madspace::Tally* tally) {
        std::lock_guard<std::mutex> guard(lock);
        active.push_back(tally);
      }
      bool remove(madspace::Tally* tally) noexcept {
        std::lock_guard<std::mutex> guard(lock);
        active.erase(std::remove(active.begin(), active.end(), tally), active.end());
        return active.empty();
      }
      void allocated(uint64_t nbytes) noexcept {
        std::lock_guard<std::mutex> guard(lock);
        for (auto* tally : active) {
          tally->reserve(nbytes);
          tally->note_peaks();
        }
      }
      void freed(uint64_t nbytes) noexcept {
        std::lock_guard<std::mutex> guard(lock);
        for (auto* tally : active) tally->release(nbytes);
      }
    };
    // Never destroyed: threads may still free buffers while the process exits.
    Scopes& scopes = *new Scopes;
    }
    """
    cdef cppclass Scopes:
        void add(Tally* tally) except + nogil
        bint remove(Tally* tally) noexcept nogil
        void allocated(uint64_t nbytes) noexcept nogil
        void freed(uint64_t nbytes) noexcept nogil
    Scopes scopes

Record = namedtuple("Record", "n_scopes peak_bytes total_bytes left_bytes peak_count total_count left_count")
Record.__doc__ = """What all ended scopes of one name counted: peaks are the largest of them, the others are sums."""

cdef object changing = _thread.RLock()     # guards what follows, and the flag that others test
cdef dict records_ = {}
os.register_at_fork(after_in_child=changing._at_fork_reinit)    # whoever held it is not there


cdef class statistics:
    """Count the device memory that buffers take and give back, as a context manager or a decorator.

    Parameters
    ----------
    name : str, optional
        Under which the numbers are added up for report(). A scope without one is in no report; a decorator without one
        takes the function's name.

    Attributes
    ----------
    name : str or None
        As given.

    Notes
    -----
    Counted are all buffers of the process: of every thread, device and pool, those in tensors included, with the bytes
    that were asked for. A free counts when it is queued, and also for a buffer that was allocated before the scope
    began; so the current numbers may be negative. Buffers of no bytes need no memory and do not count. Scopes may be
    nested, each has its own numbers, and what happens in the inner one counts in the outer one as well. The numbers
    stay after the scope's end. Where no scope is active, an allocation pays for one test of a flag.

    A decorated function gets a scope for each call. Generators and coroutines are measured until they return to their
    caller for the first time: put the scope inside of them.

    Examples
    --------
    >>> import madspace
    >>> with madspace.statistics("step") as counted:
    ...     points = madspace.zeros((100, 4))       # host memory
    >>> counted.total_bytes
    0
    """
    cdef Tally tally_
    cdef readonly str name
    cdef bint active_

    def __init__(self, name=None):
        if name is not None and not isinstance(name, str):
            hint = "; as a decorator it is written @madspace.statistics()" if callable(name) else ""
            raise TypeError(f"name: expected a str, got {type(name).__name__}{hint}")
        self.name = name

    @property
    def active(self):
        """Whether the scope has begun and not ended."""
        return self.active_

    @property
    def current_bytes(self):
        """Bytes allocated less bytes freed."""
        return self.tally_.used_bytes()

    @property
    def current_count(self):
        """Number of buffers allocated less those freed."""
        return self.tally_.used_blocks()

    @property
    def peak_bytes(self):
        """Largest `current_bytes` so far, 0 or more."""
        return self.tally_.peak_bytes.load()

    @property
    def peak_count(self):
        """Largest `current_count` so far, 0 or more."""
        return self.tally_.peak_blocks.load()

    @property
    def total_bytes(self):
        """Bytes of all allocations."""
        return self.tally_.bytes.load()

    @property
    def total_count(self):
        """Number of all allocations."""
        return self.tally_.blocks.load()

    @staticmethod
    def records():
        """What the named scopes that have ended counted.

        Returns
        -------
        dict
            By name, in the order of their first end: a named tuple with ``n_scopes`` (how many ended), ``peak_bytes``
            and ``peak_count`` (the largest among them), ``total_bytes`` and ``total_count`` (added up), ``left_bytes``
            and ``left_count`` (what was allocated and not freed in them, added up).
        """
        with changing:
            return dict(records_)

    @staticmethod
    def report():
        """The records as a table, a str of one line for each name, the largest peak first."""
        lines = [f"{'scope':<32} {'calls':>8} {'peak bytes':>16} {'total bytes':>20} {'allocations':>12} "
                 f"{'left bytes':>16}"]
        for name, record in sorted(statistics.records().items(), key=lambda item: -item[1].peak_bytes):
            lines.append(f"{name:<32} {record.n_scopes:>8} {record.peak_bytes:>16,} {record.total_bytes:>20,} "
                         f"{record.total_count:>12,} {record.left_bytes:>16,}")
        return "\n".join(lines)

    @staticmethod
    def clear():
        """Forget the records; active scopes go on."""
        with changing:
            records_.clear()

    def __enter__(self):
        with changing:
            if self.active_:
                raise RuntimeError(f"statistics: this scope is active already, got {self!r}; use one object for each")
            self.tally_.clear()
            scopes.add(&self.tally_)
            self.active_ = True
            watch(STATISTICS, True)
        return self

    def __exit__(self, *exc_info):
        with changing:
            if self.active_:
                end(self)
                if self.name is not None:
                    add_record(self)

    def __call__(self, function):
        """Wrap a function so that each call has a scope."""
        if not callable(function):
            raise TypeError(f"function: expected a callable, got {type(function).__name__}")
        name = self.name
        if name is None:
            name = getattr(function, "__qualname__", type(function).__qualname__)

        @wraps(function)
        def measured(*args, **kwargs):
            with statistics(name):
                return function(*args, **kwargs)

        return measured

    def __dealloc__(self):
        # Dropped before its end. The flag stays on, which costs time only: the lock may be held by this very thread.
        if self.active_:
            scopes.remove(&self.tally_)

    def __repr__(self):
        state = "active, " if self.active_ else ""
        return (f"<statistics {self.name!r}: {state}{self.current_bytes} bytes in {self.current_count} buffers, peak "
                f"{self.peak_bytes}, total {self.total_bytes} in {self.total_count}>")


cdef int end(statistics scope) except -1:
    scope.active_ = False
    if scopes.remove(&scope.tally_):
        watch(STATISTICS, False)
    return 0


cdef int add_record(statistics scope) except -1:
    while True:
        before = records_.get(scope.name)
        after = added(Record(0, 0, 0, 0, 0, 0, 0) if before is None else before, scope)
        # What the collector ran meanwhile, in this very thread, may have ended a scope of the same name.
        if records_.get(scope.name) is before:
            records_[scope.name] = after
            return 0


cdef object added(object record, statistics scope):
    return Record(
        record.n_scopes + 1,
        max(record.peak_bytes, scope.peak_bytes),
        record.total_bytes + scope.total_bytes,
        record.left_bytes + scope.current_bytes,
        max(record.peak_count, scope.peak_count),
        record.total_count + scope.total_count,
        record.left_count + scope.current_count,
    )


cdef void count_allocation(uint64_t nbytes) noexcept nogil:
    scopes.allocated(nbytes)


cdef void count_free(uint64_t nbytes) noexcept nogil:
    scopes.freed(nbytes)
