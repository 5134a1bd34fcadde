"""Numbers that callers pass: checked, with messages that name the argument."""
from operator import index

from cpython.long cimport PyLong_CheckExact


cdef object whole_number(object value, str name):
    if PyLong_CheckExact(value):
        return value
    if not hasattr(value, "__index__") or getattr(value, "ndim", 0) != 0:     # larger arrays have one that raises
        raise TypeError(f"{name}: expected an int, got {type(value).__name__}")
    return index(value)


cdef size_t byte_count(object value, str name) except? 0:
    cdef object number = whole_number(value, name)
    try:
        return number
    except OverflowError:
        raise ValueError(f"{name}: expected a number of bytes, 0 to 2**64 - 1, got {number}") from None
