"""Element types: DLPack's (code, bits) pairs on one side, numpy dtypes on the other."""
import sys

import numpy as np

from madspace.errors import DTypeError


# What NumPy knows only through ml_dtypes: name -> (code, bits). Kept by name so that ml_dtypes is imported by those
# alone who meet such a type.
cdef dict _extension_codes = {
    "bfloat16": (CODE_BFLOAT, 16),
    "float8_e3m4": (7, 8),
    "float8_e4m3": (8, 8),
    "float8_e4m3b11fnuz": (9, 8),
    "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8),
}
cdef dict _extension_names = {codes: name for name, codes in _extension_codes.items()}
cdef dict _kind_codes = {"i": CODE_INT, "u": CODE_UINT, "f": CODE_FLOAT, "c": CODE_COMPLEX, "b": CODE_BOOL}
cdef dict _code_kinds = {code: kind for kind, code in _kind_codes.items()}
cdef dict _dtypes = {}      # (code << 8 | bits) -> numpy dtype, filled at first use
cdef str _native = "<" if sys.byteorder == "little" else ">"


cdef bint is_known(uint8_t code, uint8_t bits) noexcept nogil:
    if code == CODE_INT or code == CODE_UINT:
        return bits == 8 or bits == 16 or bits == 32 or bits == 64
    if code == CODE_FLOAT:
        return bits == 16 or bits == 32 or bits == 64
    if code == CODE_BFLOAT:
        return bits == 16
    if code == CODE_COMPLEX:
        return bits == 64 or bits == 128
    return bits == 8 and CODE_BOOL <= code <= CODE_FLOAT8_LAST


cdef str typestr_of(uint8_t code, uint8_t bits):
    order = "|" if bits == 8 else _native
    return f"{order}{_code_kinds.get(code, 'V')}{bits // 8}"


cdef str dtype_name(uint8_t code, uint8_t bits):
    if code == CODE_BOOL:
        return "bool"
    if (code, bits) in _extension_names:
        return _extension_names[code, bits]
    return {"i": "int", "u": "uint", "f": "float", "c": "complex"}[_code_kinds[code]] + str(bits)


cdef object numpy_dtype(uint8_t code, uint8_t bits):
    key = code << 8 | bits
    dtype = _dtypes.get(key)
    if dtype is None:
        dtype = _dtypes[key] = _make_dtype(code, bits)
    return dtype


def _make_dtype(code, bits):
    name = _extension_names.get((code, bits))
    if name is None:
        return np.dtype(typestr_of(code, bits))
    try:
        import ml_dtypes
        return np.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError):
        raise DTypeError(f"dtype: {name} needs the package ml_dtypes with a type of that name") from None


cdef bint typestr_codes(str typestr, uint8_t* code, uint8_t* bits) except? -1:
    if len(typestr) < 3 or not typestr[2:].isdecimal():
        return False
    size = int(typestr[2:])
    kind = _kind_codes.get(typestr[1])
    if kind is None or size > 16 or (size > 1 and typestr[0] not in (_native, "=")):
        return False
    if not is_known(kind, 8 * size):
        return False
    code[0] = kind
    bits[0] = 8 * size
    return True


cdef int dtype_codes(object dtype, str name, uint8_t* code, uint8_t* bits) except -1:
    try:
        dtype = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError):        # the latter two for text
        raise DTypeError(f"{name}: expected a numpy dtype, got {dtype!r}") from None
    known = _extension_codes.get(dtype.name)
    if known is not None:
        code[0], bits[0] = known
        return 0
    if not typestr_codes(dtype.str, code, bits):
        raise DTypeError(f"{name}: expected a bool, int, uint, float or complex dtype in native byte order "
                         f"of at most 128 bits, got {dtype!r}")
    return 0
