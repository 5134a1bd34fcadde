"""The results of ops, checked or made, and their launch: what per-event kernels and programs have in common."""

from libc.stdint cimport int64_t, uintptr_t
from libcpp.vector cimport vector

from madspace.core._dlpack_abi cimport DEVICE_CUDA
from madspace.core._dtypes cimport CODE_FLOAT, CODE_UINT
from madspace.core._layout cimport compact_strides, element_count
from madspace.core._operand cimport (
    Intake, Operand, Range, describe_dtype, framework_array, hand_over, hand_over_parts, listed, meet,
    rows_overlap, shape_of, strides_told, takes_parts,
)
from madspace.core._recording cimport recording_of
from madspace.core.dlpack cimport import_array
from madspace.core.kernel cimport Kernel
from madspace.core.memory cimport Buffer, allocate
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport Tensor, empty_host, make_tensor

from madspace.errors import CaptureError, DTypeError, ShapeError


cdef enum:
    OUTPUT_ALIGNMENT = 256       # of each array in a slab of results: no two share a memory transaction


cdef inline int itemsize_of(const Kind* kind) noexcept:
    return 8 if kind.code == CODE_FLOAT else 4


cdef bint has_type(const Kind* kind, const Operand* x) noexcept:
    return x.code == kind.code and x.bits == 8 * itemsize_of(kind)


cdef bint has_shape(const Kind* kind, const Operand* x) noexcept:
    cdef int k
    if x.ndim != kind.ndim + 1:
        return False
    for k in range(kind.ndim):
        if x.shape[1 + k] != kind.shape[k]:
            return False
    return True


cdef str dtype_name(const Kind* kind):
    return "float64" if kind.code == CODE_FLOAT else "int32"


cdef str wanted_shape(const Kind* kind, object batch):
    cdef list extents = [str(kind.shape[k]) for k in range(kind.ndim)]
    return f"({', '.join([str(batch), *extents])}{'' if extents else ','})"


cdef void lay_rows(Rows* rows, const Operand* x) noexcept:
    """Tell where an array is; nowhere without elements."""
    cdef int64_t low = 0, high = 1, last
    cdef int64_t itemsize = x.bits // 8
    cdef int k
    if x.data == NULL or x.shape[0] == 0:
        return
    for k in range(1, x.ndim):
        if x.shape[k] == 0:
            return
        if x.strides[k] < 0:
            low += (x.shape[k] - 1) * x.strides[k]
        else:
            high += (x.shape[k] - 1) * x.strides[k]
    rows.data, rows.width = x.data + low * itemsize, (high - low) * itemsize
    rows.n, rows.stride = 1 if x.strides[0] == 0 else x.shape[0], x.strides[0] * itemsize
    last = (rows.n - 1) * rows.stride
    rows.reach.low = <char*>rows.data + (last if last < 0 else 0)
    rows.reach.high = <char*>rows.data + (last if last > 0 else 0) + rows.width


cdef inline void widen(Range* all, const Range* one) noexcept:
    if one.low < one.high:
        if all.low == NULL or one.low < all.low:
            all.low = one.low
        if one.high > all.high:
            all.high = one.high


cdef bint overlap(const Rows* a, const Rows* b) noexcept:
    # Most arrays are far apart, which is cheap to see.
    return meet(&a.reach, &b.reach) and rows_overlap(a.data, a.n, a.stride, a.width, b.data, b.n, b.stride, b.width)


cdef class Outputs:
    """The results of an op.

    Parameters
    ----------
    names : sequence of str
        Of the results.
    input_names : sequence of str
        Of the arrays before them.
    row_alignment : int
        Bytes, on a GPU, of results with an axis besides that of the batch; 1 if it is left to the element type.
    """

    def __cinit__(self, names, input_names, int64_t row_alignment):
        self.names = tuple(names)
        self.labels_ = tuple([f"out[{i}] ({name})" for i, name in enumerate(self.names)])
        self.input_names_ = tuple(input_names)
        self.n_inputs_ = len(self.input_names_)
        self.row_alignment_ = row_alignment

    cdef int add(self, const Kind* kind) except -1:
        self.kinds_.push_back(kind[0])
        return 0

    cdef list check(self, Intake intake, Operand* operands, int64_t n, object out):
        cdef int n_out = <int>self.kinds_.size()
        cdef int i, k
        cdef vector[Rows] places
        cdef Range all                   # from the first byte that any of them reaches to the last one
        cdef Rows* mine
        cdef Operand* x
        cdef list results
        for i in range(n_out):
            operands[self.n_inputs_ + i].data = NULL
        if out is None:
            return [None] * n_out
        results = listed(out, "out")
        if len(results) != n_out:
            raise ShapeError(f"out: expected {n_out} entries ({', '.join(self.names)}), got {len(results)}")
        places.resize(self.n_inputs_ + n_out)
        all.low = all.high = NULL
        for i in range(self.n_inputs_):
            lay_rows(&places[i], &operands[i])
            widen(&all, &places[i].reach)
        for i in range(n_out):
            if results[i] is None:
                continue
            x = &operands[self.n_inputs_ + i]
            intake.take(x, results[i], self.labels_[i], True)
            self.check_one(i, x, 1 if self.kinds_[i].shared else n, intake.device is not None)
            mine = &places[self.n_inputs_ + i]
            lay_rows(mine, x)
            # Arrays that were made one behind the other meet nothing at all.
            for k in range(self.n_inputs_ + i if meet(&all, &mine.reach) else 0):
                if overlap(&places[k], mine):
                    name = self.input_names_[k] if k < self.n_inputs_ else self.labels_[k - self.n_inputs_]
                    raise ValueError(f"{self.labels_[i]}: expected memory of its own, got memory shared with {name}")
            widen(&all, &mine.reach)
        return results

    cdef int check_one(self, int i, Operand* x, int64_t length, bint on_gpu) except -1:
        cdef Kind* kind = &self.kinds_[i]
        cdef int64_t expected = 1, itemsize = itemsize_of(kind), alignment = itemsize
        cdef int k
        cdef bint is_packed = True
        cdef str name = self.labels_[i]
        if not has_type(kind, x):
            raise DTypeError(f"{name}: expected dtype {dtype_name(kind)}, got {describe_dtype(x)}")
        if not has_shape(kind, x) or x.shape[0] != length:
            raise ShapeError(f"{name}: expected shape {wanted_shape(kind, length)}, got {shape_of(x)}")
        if x.readonly:
            raise ValueError(f"{name}: expected a writable array, got a read-only one")
        if kind.count > 0:
            for k in range(kind.ndim - 1, -1, -1):
                is_packed = is_packed and (kind.shape[k] == 1 or x.strides[1 + k] == expected)
                expected *= kind.shape[k]
        if not is_packed or (length > 1 and x.strides[0] < kind.count):
            raise ShapeError(f"{name}: expected events that are contiguous and do not overlap, got strides "
                             f"{strides_told(x)} (in elements)")
        # An axis of length 1 may have any stride.
        expected = 1
        for k in range(kind.ndim - 1, -1, -1):
            x.strides[1 + k] = expected
            expected *= kind.shape[k]
        if length <= 1:
            x.strides[0] = kind.count
        if on_gpu and kind.ndim > 0 and self.row_alignment_ > alignment:
            alignment = self.row_alignment_
        if <uintptr_t>x.data % <uintptr_t>alignment != 0 or itemsize * x.strides[0] % alignment != 0:
            raise ShapeError(f"{name}: expected events aligned to {alignment} bytes, got data at "
                             f"{<uintptr_t>x.data:#x} and events {itemsize * x.strides[0]} bytes apart")
        return 0

    cdef int make(self, Intake intake, Operand* operands, int64_t n, list results, vector[int]& missing, object first,
                  object maker, bint as_tensors) except -1:
        cdef int i
        missing.reserve(self.kinds_.size())
        for i in range(<int>self.kinds_.size()):
            if results[i] is None:
                missing.push_back(i)
        if missing.empty():
            return 0
        # Graphs of ours keep memory that is ours; what a library frees is lent to others while a graph still writes it.
        if maker is not None and intake.device is not None and recording_of(intake.stream) is None:
            self.make_elsewhere(intake, operands, n, results, missing, first, maker)
            return 0
        try:
            if intake.device is None:
                self.make_on_host(operands, n, results, missing)
            else:
                self.make_in_slab(intake, operands, n, results, missing, not as_tensors and takes_parts(first))
        except CaptureError:        # of another library, whose allocator may know what to do
            if not self.make_elsewhere(intake, operands, n, results, missing, first, None):
                raise
        return 0

    cdef int make_on_host(self, Operand* operands, int64_t n, list results, vector[int]& missing) except -1:
        cdef Tensor tensor
        cdef Operand* x
        cdef int i
        for i in missing:
            x = self.compact(operands, i, n)
            tensor = empty_host(x.code, x.bits, x.ndim, x.shape)
            x.data = <char*>tensor.data_
            results[i] = tensor
        return 0

    cdef int make_in_slab(self, Intake intake, Operand* operands, int64_t n, list results, vector[int]& missing,
                          bint as_parts) except -1:
        """Make results in one allocation on the device, as Tensors or as parts that give() hands over."""
        cdef int64_t total = 0
        cdef Buffer slab
        cdef Operand* x
        cdef int i
        for i in missing:
            x = self.compact(operands, i, n)
            x.device_type, x.device_id = DEVICE_CUDA, intake.device_id
            x.data = <char*>NULL + total         # from the beginning of the slab
            total += element_count(x.ndim, x.shape) * (x.bits // 8)
            total = (total + OUTPUT_ALIGNMENT - 1) // OUTPUT_ALIGNMENT * OUTPUT_ALIGNMENT
        slab = allocate(intake.device, total, intake.stream)
        for i in missing:
            x = operands + self.n_inputs_ + i
            x.data = <char*>slab.ptr_ + <size_t>x.data if element_count(x.ndim, x.shape) > 0 else NULL
            if as_parts:
                results[i] = slab
            else:
                results[i] = make_tensor(slab, None, x.data, DEVICE_CUDA, x.device_id, x.code, x.bits, x.ndim,
                                         x.shape, NULL, False)
        if slab.stream is not intake.stream:    # memory of another stream's
            intake.writes_.append(make_tensor(slab, None, <void*>slab.ptr_, DEVICE_CUDA, intake.device_id, CODE_UINT, 8,
                                              1, &total, NULL, False))
        return 0

    cdef Operand* compact(self, Operand* operands, int i, int64_t n) noexcept:
        """Describe a result that is to be made."""
        cdef Operand* x = operands + self.n_inputs_ + i
        cdef Kind* kind = &self.kinds_[i]
        cdef int k
        x.code, x.bits = <unsigned char>kind.code, <unsigned char>(8 * itemsize_of(kind))
        x.ndim = kind.ndim + 1
        x.shape[0] = 1 if kind.shared else n
        for k in range(kind.ndim):
            x.shape[1 + k] = kind.shape[k]
        compact_strides(x.ndim, x.shape, x.strides)
        return x

    cdef bint make_elsewhere(self, Intake intake, Operand* operands, int64_t n, list results, vector[int]& missing,
                             object first, object maker) except -1:
        """Have results made, by the library of the first array if nothing else is given; False where it cannot."""
        cdef Operand* x
        cdef int64_t length
        cdef int i, k
        for i in missing:
            x = self.compact(operands, i, n)
            length = x.shape[0]
            if maker is not None:
                results[i] = maker(tuple([x.shape[k] for k in range(x.ndim)]), x.code == CODE_FLOAT, intake.device_id)
            else:
                results[i] = framework_array(intake, first, x.code, x.bits, x.ndim, x.shape)
            if results[i] is None:
                return False
            intake.take(x, results[i], self.labels_[i], True)
            self.check_one(i, x, length, True)
        return True

    cdef int give(self, Intake intake, Operand* operands, list results, vector[int]& missing, object first,
                  bint as_tensors) except -1:
        cdef Stream consumer
        cdef int i
        if missing.empty() or (type(results[missing[0]]) is Tensor and (as_tensors or type(first) is Tensor)):
            return 0
        consumer = None if as_tensors else intake.stream_of(first)
        if type(results[missing[0]]) is Buffer:
            hand_over_parts(operands + self.n_inputs_, missing, results, first, consumer)
            return 0
        for i in missing:
            made = results[i]
            if type(made) is Tensor and not as_tensors:
                results[i] = hand_over(<Tensor>made, first, consumer)
            elif type(made) is not Tensor and as_tensors:
                results[i] = import_array(made, intake.stream, self.labels_[i])
        return 0


cdef int launch(Kernel kernel, Stream stream, int64_t n, int block, unsigned int shared, void* args) except -1:
    cdef void* params[1]
    params[0] = args
    return kernel.launch_raw(<unsigned int>((n + block - 1) // block), 1, 1, <unsigned int>block, 1, 1, shared, stream,
                             params)
