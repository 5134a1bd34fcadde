# Members that a compiled class gets from another module: those whose subject is another one, or that need the class.
from cpython.ref cimport PyObject

cdef extern from "Python.h":
    ctypedef struct _TypeObject "PyTypeObject":
        PyObject* tp_dict
    void PyType_Modified(_TypeObject* kind)


cdef inline int attach(type kind, str name, object member) except -1:
    cdef _TypeObject* slots = <_TypeObject*><void*>kind
    (<dict>slots.tp_dict)[name] = member
    PyType_Modified(slots)
    return 0


# Functions, under their own names; to tracebacks and documentation they are the class's methods.
cdef inline int attach_methods(type kind, tuple functions) except -1:
    for function in functions:
        function.__qualname__ = f"{kind.__name__}.{function.__name__}"
        attach(kind, function.__name__, function)
    return 0
