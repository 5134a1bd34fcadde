"""Arguments of ops: any array by any protocol, on one device, ordered with one stream."""

import sys

import numpy as np

from madspace.errors import DeviceMismatchError, MadspaceError

from cpython.exc cimport PyErr_Occurred
from cpython.ref cimport Py_DECREF, PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset
from libcpp.vector cimport vector

from madspace.core._borrow cimport borrow, shows
from madspace.core._dlpack_abi cimport DEVICE_CPU, DEVICE_CUDA
from madspace.core._facts cimport Facts, exchange_table, facts_of, told_stream
from madspace.core._foreign cimport look_at_some, n_held, order_inside
from madspace.core._layout cimport compact_strides
from madspace.core._managed cimport Parts, drop_parts, lend, managed_part, new_parts
from madspace.core._recording cimport n_recordings
from madspace.core._uses cimport finish_unnoted, work_on
from madspace.core.current cimport chosen_stream
from madspace.core.device cimport get_device
from madspace.core.dlpack cimport (
    DLTensor, ExchangeTable, ManagedTensor, export_managed, framework_stream, import_array,
)
from madspace.core.event cimport order
from madspace.core.memory cimport Buffer
from madspace.core.stream cimport Stream, as_stream, own_stream
from madspace.core.tensor cimport MAX_NDIM, Tensor


cdef extern from "Python.h":
    PyObject** PySequence_Fast_ITEMS(object items)


cdef str device_name(int32_t device_type, int32_t device_id):
    return "the CPU" if device_type == DEVICE_CPU else f"cuda:{device_id}"


cdef class Intake:
    cdef int locate(self, object first, str name) except -1:
        """Find the device of the call from its first array."""
        self.first_array_ = first
        if type(first) is not Tensor and not self.owns and borrow(first, facts_of(type(first)), False,
                                                                  &self.first_lent_):
            self.device_type, self.device_id = self.first_lent_.device_type, self.first_lent_.device_id
        else:
            self.first_ = import_array(first, None, name)
            self.device_type, self.device_id = self.first_.device_type_, self.first_.device_id_
        if self.device_type == DEVICE_CUDA:
            self.device = get_device(self.device_id)
        return 0

    cdef int choose(self, object stream, object first) except -1:
        """Choose the stream: the argument, else the block's, else the framework's current one, else the device's."""
        cdef type kind = type(first)
        if self.device is None:
            if stream is not None:
                raise ValueError(f"stream: expected None for arrays on the CPU, got {stream!r}")
            return 0
        if self.first_ is None:
            self.lender_facts_ = facts_of(kind)
            self.lender_ = told_stream(self.lender_facts_, self.device_id)
            self.lender_type_ = <void*>kind
        if stream is not None:
            self.stream = as_stream(stream, self.device)
            return 0
        self.stream = chosen_stream(self.device)
        if self.stream is None and type(first) is not Tensor:
            self.stream = framework_stream(first) if self.lender_ is None else self.lender_
        if self.stream is None:
            self.stream = own_stream(self.device)
        return 0

    cdef Stream stream_of(self, object first):
        if self.device is not None and self.first_ is None:
            return self.lender_
        return framework_stream(first)

    cdef bint look_at(self, Shown* shown, Operand* space, object array, bint write) except -1:
        cdef DLTensor view
        cdef type kind = type(array)
        if self.owns or (self.first_ is not None and array is self.first_array_):
            return False
        if (<void*>kind == self.lender_type_ and (write or array is not self.first_array_)
                and shows(array, self.lender_facts_, write, &view)
                and view.device.device_type == self.device_type and view.device.device_id == self.device_id):
            shown.data, shown.shape, shown.strides = <char*>view.data + view.byte_offset, view.shape, view.strides
            shown.ndim, shown.code, shown.bits = view.ndim, view.dtype.code, view.dtype.bits
            return True
        if not self.lent(space, array, write):
            return False
        shown.data, shown.shape, shown.strides = space.data, space.shape, space.strides
        shown.ndim, shown.code, shown.bits = space.ndim, space.code, space.bits
        return space.device_type == self.device_type and space.device_id == self.device_id

    cdef int take(self, Operand* operand, object array, str name, bint write) except -1:
        """Describe one argument and note what has to be ordered."""
        cdef Tensor tensor
        cdef int i
        if type(array) is Tensor:
            tensor = <Tensor>array
        elif array is self.first_array_ and self.first_ is not None:
            tensor = self.first_
        elif not self.owns and self.lent(operand, array, write):
            return self.check_device(operand.device_type, operand.device_id, name)
        else:
            tensor = import_array(array, self.stream, name)
        self.check_device(tensor.device_type_, tensor.device_id_, name)
        operand.data = <char*>tensor.data_
        operand.device_type, operand.device_id = tensor.device_type_, tensor.device_id_
        operand.code, operand.bits = tensor.code_, tensor.bits_
        operand.readonly = tensor.readonly_
        operand.ndim = tensor.ndim_
        for i in range(tensor.ndim_):
            operand.shape[i] = tensor.shape_[i]
            operand.strides[i] = tensor.strides_[i]
        if write:
            self.writes_.append(tensor)
        else:
            self.reads_.append(tensor)
        return 0

    cdef bint lent(self, Operand* operand, object array, bint write) except -1:
        """Describe an array that its package lends behind the same stream as others of the call, if there are any."""
        cdef Facts facts
        cdef Stream current
        cdef type kind = type(array)
        if array is self.first_array_ and not write:
            operand[0] = self.first_lent_
            return True
        if <void*>kind == self.lender_type_:
            return borrow(array, self.lender_facts_, write, operand)
        facts = facts_of(kind)
        if not borrow(array, facts, write, operand):
            return False
        if self.device is None or operand.device_type != DEVICE_CUDA or operand.device_id != self.device_id:
            return True                 # on the CPU, or refused
        current = told_stream(facts, operand.device_id)
        if self.lender_ is None:
            self.lender_, self.lender_type_, self.lender_facts_ = current, <void*>kind, facts
        if self.lender_.handle_ == current.handle_:
            return True
        if facts.cupy is None:
            return False                # taking it over puts it in order, before and behind
        if self.others_ is None:
            self.others_ = []
        if current not in self.others_:
            self.others_.append(current)
        return True

    cdef int check_device(self, int32_t device_type, int32_t device_id, str name) except -1:
        if device_type != self.device_type or device_id != self.device_id:
            kind = "an array" if self.device_type == DEVICE_CPU else "a CUDA tensor"
            raise DeviceMismatchError(
                f"{name}: expected {kind} on {device_name(self.device_type, self.device_id)} as the first one, "
                f"got one on {device_name(device_type, device_id)}"
            )
        return 0

    def __cinit__(self):
        self.reads_ = []
        self.writes_ = []

    cdef void take_known(self, tuple arrays, Py_ssize_t n_inputs) noexcept:
        self.known_, self.n_known_inputs_ = arrays, n_inputs

    cdef int before(self) except -1:
        """Make the stream wait, on the device, for earlier writers of the inputs and earlier users of the outputs."""
        if self.stream is None:
            return 0
        if n_held != 0:
            look_at_some(self.stream)
        if self.lender_ is not None:
            order(self.device, self.lender_.handle_, self.stream.handle_)
        if self.others_ is not None:
            for lender in self.others_:
                order(self.device, (<Stream>lender).handle_, self.stream.handle_)
        if self.known_ is not None:
            self.come_behind(self.known_, 0, self.n_known_inputs_, False)
            self.come_behind(self.known_, self.n_known_inputs_, len(self.known_), True)
        self.come_behind(self.reads_, 0, len(self.reads_), False)
        self.come_behind(self.writes_, 0, len(self.writes_), True)
        return 0

    cdef int come_behind(self, object tensors, Py_ssize_t first, Py_ssize_t end, bint write) except -1:
        cdef PyObject** items = PySequence_Fast_ITEMS(tensors)
        cdef Tensor tensor
        cdef Py_ssize_t i
        for i in range(first, end):
            if <object>items[i] is not None and not at_home(items[i], self.stream):
                if self.work_ is None:
                    self.work_ = work_on(self.stream)
                tensor = <Tensor>items[i]
                tensor.before_in(self.work_, write)
        return 0

    cdef int after(self) except -1:
        """Note the uses, so that later writers and frees wait for the work just queued."""
        if self.stream is None:
            return 0
        if self.work_ is not None:
            self.work_.settle()
        error = self.note(self.reads_, 0, len(self.reads_), False, None)
        error = self.note(self.writes_, 0, len(self.writes_), True, error)
        if self.known_ is not None:
            error = self.note(self.known_, 0, self.n_known_inputs_, False, error)
            error = self.note(self.known_, self.n_known_inputs_, len(self.known_), True, error)
        if self.lender_ is not None and self.lender_.handle_ != self.stream.handle_:
            error = self.give_back(self.lender_, error)
        if self.others_ is not None:
            for lender in self.others_:
                error = self.give_back(lender, error)
        if error is not None:
            raise error
        return 0

    cdef object give_back(self, Stream lender, object error):
        """Order a package, which reuses its memory in the order of its own stream, behind the work."""
        try:
            order_inside(self.device, self.stream.handle_, lender.handle_)
        except Exception as failure:
            error = error or failure
            finish_unnoted(self.stream)
        return error

    cdef object note(self, object tensors, Py_ssize_t first, Py_ssize_t end, bint write, object error):
        cdef PyObject** items = PySequence_Fast_ITEMS(tensors)
        cdef Tensor tensor
        cdef Py_ssize_t i
        for i in range(first, end):
            if <object>items[i] is None or (n_recordings == 0 and at_home(items[i], self.stream)):
                continue
            try:
                if self.work_ is None:
                    self.work_ = work_on(self.stream)
                tensor = <Tensor>items[i]
                tensor.after_in(self.work_, write)
            except Exception as failure:        # the others are used all the same
                error = error or failure
        return error


cdef inline bint at_home(PyObject* tensor, Stream stream) noexcept:
    """Tell whether a tensor's memory has never left its own stream, where everything is in order."""
    return ((<Tensor>tensor).buffer_ is not None and (<Tensor>tensor).buffer_.stream is stream
            and (<Tensor>tensor).buffer_.uses_ is None and (<Tensor>tensor).buffer_.writer_ is stream
            and not (<Tensor>tensor).buffer_.closed_)


cdef bint rows_overlap(const char* a, int64_t a_rows, int64_t a_stride, int64_t a_width,
                       const char* b, int64_t b_rows, int64_t b_stride, int64_t b_width) noexcept nogil:
    cdef const char* a_low = a + (a_rows - 1) * a_stride if a_stride < 0 else a
    cdef const char* b_low = b + (b_rows - 1) * b_stride if b_stride < 0 else b
    cdef int64_t a_size = (a_rows - 1) * (a_stride if a_stride > 0 else -a_stride) + a_width
    cdef int64_t b_size = (b_rows - 1) * (b_stride if b_stride > 0 else -b_stride) + b_width
    cdef int64_t gap
    if a_rows == 0 or b_rows == 0 or a_low + a_size <= b_low or b_low + b_size <= a_low:
        return False
    if a_stride == b_stride and a_stride > 0 and a_width <= a_stride and b_width <= b_stride:
        # Two columns of one table interleave: they meet only if they share bytes of a row.
        gap = (b - a) % a_stride        # as in Python, never negative
        return not (gap >= a_width and gap + b_width <= a_stride)
    return True


cdef tuple shape_of(const Operand* x):
    return tuple([x.shape[k] for k in range(x.ndim)])


cdef tuple strides_told(const Operand* x):
    return tuple([x.strides[k] for k in range(x.ndim)])


cdef str describe_dtype(const Operand* x):
    names = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
    return f"{names.get(x.code, 'type')}{x.bits}"


cdef list listed(object arrays, str name):
    try:
        return list(arrays)
    except TypeError:
        raise TypeError(f"{name}: expected a sequence of arrays, got {type(arrays).__name__}") from None


cdef object hand_over(Tensor result, object like, Stream consumer):
    cdef const ExchangeTable* table
    if type(like) is Tensor:
        return result
    table = exchange_table(type(like))
    if table != NULL:
        return object_of(table, export_managed(result, consumer), type(like))
    convert = None if isinstance(like, (np.ndarray, np.generic)) else _from_dlpack_of(type(like))
    if convert is not None:
        return convert(result)
    return result.numpy() if result.device_type_ == DEVICE_CPU else result


cdef bint takes_parts(object like) except -1:
    return type(like) is not Tensor and exchange_table(type(like)) != NULL


cdef int hand_over_parts(Operand* results, const vector[int]& places, list arrays, object like,
                         Stream consumer) except -1:
    cdef const ExchangeTable* table = exchange_table(type(like))
    cdef int n = <int>places.size(), i
    cdef Buffer slab = arrays[places[0]]
    cdef object owner = slab
    cdef Operand* x
    cdef DLTensor view
    cdef Parts* parts
    if consumer is not None:
        slab.before(consumer, True)
        owner = lend(slab, slab, consumer, True)
    parts = new_parts(owner, n)
    view.byte_offset = 0
    for i in range(n):
        x = results + places[i]
        view.data, view.ndim, view.shape, view.strides = x.data, x.ndim, x.shape, x.strides
        view.device.device_type, view.device.device_id = x.device_type, x.device_id
        view.dtype.code, view.dtype.bits, view.dtype.lanes = x.code, x.bits, 1
        try:
            arrays[places[i]] = object_of(table, managed_part(parts, i, &view, 0), type(like))
        except BaseException:
            if i + 1 < n:
                drop_parts(parts, n - i - 1)        # those that nobody will delete
            raise
    return 0


cdef object object_of(const ExchangeTable* table, ManagedTensor* managed, type kind):
    """Make an array of a library of what is given to it."""
    cdef void* made
    if table.to_object(managed, &made) != 0:
        try:
            refused = take_error()
        finally:
            managed.deleter(managed)  # what failed to take it over does not own it
        raise MadspaceError(f"{kind.__module__} could not take over a result: {refused}") from refused
    answer = <object><PyObject*>made
    Py_DECREF(answer)  # `made` carried a reference of its own
    return answer


cdef void note_error(void* context, const char* kind, const char* message) noexcept with gil:
    (<list>context).append(f"{kind.decode(errors='replace')}: {message.decode(errors='replace')}")


cdef object framework_array(Intake intake, object like, uint8_t code, uint8_t bits, int ndim, int64_t* shape):
    cdef const ExchangeTable* table = exchange_table(type(like))
    cdef ManagedTensor* managed = NULL
    cdef int64_t strides[MAX_NDIM]
    cdef DLTensor prototype
    cdef Stream current
    cdef list told = []
    if type(like) is Tensor or table == NULL or table.allocate == NULL or table.to_object == NULL:
        return None
    current = told_stream(facts_of(type(like)), intake.device_id)
    if current is None or current.handle_ != intake.stream.handle_:
        return None
    compact_strides(ndim, shape, strides)
    memset(&prototype, 0, sizeof(prototype))
    prototype.device.device_type, prototype.device.device_id = DEVICE_CUDA, intake.device_id
    prototype.ndim, prototype.shape, prototype.strides = ndim, shape, strides
    prototype.dtype.code, prototype.dtype.bits, prototype.dtype.lanes = code, bits, 1
    if table.allocate(&prototype, &managed, <void*>told, note_error) != 0:
        raise MadspaceError(f"{type(like).__module__} could not allocate a result: {'; '.join(told)}")
    return object_of(table, managed, type(like))


cdef object take_error():
    """The pending exception, no longer pending; None where there is none."""
    if PyErr_Occurred() is NULL:
        return None
    try:
        raise_pending()
    except Exception as error:
        return error


cdef int raise_pending() except -1:
    return -1


cdef object _from_dlpack_of(type kind):
    """The function of the type's package that takes an array over; None where it has none."""
    package = kind.__module__.partition(".")[0]
    # JAX's arrays are of a class of jaxlib.
    framework = sys.modules.get({"jaxlib": "jax"}.get(package, package))
    for place in (framework, getattr(framework, "dlpack", None)):
        convert = getattr(place, "from_dlpack", None)
        if convert is not None:
            return convert
    return None
