# Numbers that callers pass, for messages that name the argument.
# An int, by __index__; TypeError for anything else.
cdef object whole_number(object value, str name)
# A number of bytes, 0 to 2**64 - 1; TypeError, ValueError.
cdef size_t byte_count(object value, str name) except? 0
