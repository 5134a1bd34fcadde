from madspace.core._dlpack_abi cimport DLTensor
from madspace.core._facts cimport Facts
from madspace.core._operand cimport Operand


# Describes an array of another package without taking it over: by its exchange table, or CuPy's by its attributes. What
# `operand` tells holds while the caller keeps the array, and what reads it is behind the package's current stream.
# False where it has to be taken over: no such array, one that is read-only or lazy or of an unusual kind, or a capture
# of our own that has to keep it.
cdef bint borrow(object array, Facts facts, bint write, Operand* operand) except -1

# The same by the table alone, as it tells, with shape and strides; for who compares it with what borrow() described.
cdef bint shows(object array, Facts facts, bint write, DLTensor* view) except -1
