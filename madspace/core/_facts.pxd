from madspace.core._cupy cimport CupyArrays
from madspace.core._dlpack_abi cimport ExchangeTable
from madspace.core.stream cimport Stream


# What was found out about a type. It does not keep the type: the entry goes with it, before its address comes again.
cdef class Facts:
    cdef const ExchangeTable* table     # NULL where it has none, or an incompatible one
    cdef int level                      # how many keywords its __dlpack__ was found not to know
    cdef bint writable                  # all of its arrays can be written to
    cdef CupyArrays cupy                # where its arrays are CuPy's, else None
    cdef object reference

cdef Facts facts_of(type t)

# The exchange table of a type (a torch.Tensor's, say). Cached per type.
cdef const ExchangeTable* exchange_table(type t) except? NULL

# The stream on which the framework of a type works now on a device; None where it does not tell.
cdef Stream told_stream(Facts facts, int device_id)

# Raises what a function of an exchange table that has failed has left. name: the argument, for messages.
cdef int reraise(str name) except -1
