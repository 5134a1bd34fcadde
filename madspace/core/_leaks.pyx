"""The report of what was left at exit: MADSPACE_LEAK_CHECK=1."""
import atexit
import gc
import os
import sys
import weakref

from madspace.core._watch cimport LEAKS, watch

from madspace.core._environment import is_on

cdef dict remembered = {}       # id: (weak reference, where it was made); an entry goes with its object
cdef str PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


cdef int remember(object thing) except -1:
    key = id(thing)
    remembered[key] = weakref.ref(thing, lambda _: remembered.pop(key, None)), where_from()
    return 0


cdef str where_from():
    """The innermost Python line outside of this package."""
    try:
        frame = sys._getframe()
    except ValueError:      # a thread without any Python
        return "outside of Python"
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return "madspace itself" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def leftovers():
    """What is open and was not closed.

    Returns
    -------
    list of (str, str, int, int)
        Kind, where it was made (``file:line``), how many, and their bytes together, in the order of their making.
        Empty unless ``MADSPACE_LEAK_CHECK`` was on when the package was imported.
    """
    cdef dict found = {}
    for reference, where in list(remembered.values()):
        thing = reference()
        if thing is not None and not thing.closed:
            key = type(thing).__name__, where
            count, nbytes = found.get(key, (0, 0))
            found[key] = count + 1, nbytes + getattr(thing, "nbytes", 0)
    return [(*key, *numbers) for key, numbers in found.items()]


def _report():
    # A cycle that nobody has collected yet is no leak.
    gc.collect()
    found = leftovers()
    if not found:
        return
    lines = [f"madspace: {sum(count for _, _, count, _ in found)} left at exit (MADSPACE_LEAK_CHECK):"]
    for kind, where, count, nbytes in found:
        size = f", {nbytes} bytes" if nbytes else ""
        lines.append(f"  {count} {kind}{size}, from {where}")
    print("\n".join(lines), file=sys.stderr, flush=True)


if is_on("MADSPACE_LEAK_CHECK"):
    # Registered at the import, so that it runs after the hooks in which a program closes what it has.
    atexit.register(_report)
    watch(LEAKS, True)
