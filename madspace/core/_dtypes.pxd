from libc.stdint cimport uint8_t

# DLPack's type codes that this package handles. 7 to 14 are the eight-bit floats.
cdef enum:
    CODE_INT = 0
    CODE_UINT = 1
    CODE_FLOAT = 2
    CODE_BFLOAT = 4
    CODE_COMPLEX = 5
    CODE_BOOL = 6
    CODE_FLOAT8_FIRST = 7
    CODE_FLOAT8_LAST = 14

cdef bint is_known(uint8_t code, uint8_t bits) noexcept nogil
cdef str dtype_name(uint8_t code, uint8_t bits)

# The numpy dtype; bfloat16 and the eight-bit floats come from ml_dtypes. DTypeError where it lacks the type.
cdef object numpy_dtype(uint8_t code, uint8_t bits)

# Codes of anything that numpy.dtype() accepts. name: the argument, for messages.
cdef int dtype_codes(object dtype, str name, uint8_t* code, uint8_t* bits) except -1

# Codes of an array interface's typestr ("<f8"); 0 where it is no native number (void, object, other byte order, ...).
cdef bint typestr_codes(str typestr, uint8_t* code, uint8_t* bits) except? -1
cdef str typestr_of(uint8_t code, uint8_t bits)
