"""Programs as kernels get them: by value, fused or interpreted."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from madspace.core._operand cimport Operand
from madspace.core.device cimport Device
from madspace.core.module cimport shipped_module
from madspace.core.stream cimport Stream

from madspace.cpu._programs import op_table
from madspace.errors import UnsupportedOpError
from madspace.phasespace.columns import columns
from madspace.phasespace.fused import fused_name
from madspace.phasespace.jit import fused_module, shipped_stem
from madspace.phasespace.rows import Store, assign_rows


cdef enum:
    FUSED_BLOCK = 256            # threads, the most that a fused kernel is written for
    SMALL_BLOCK = 64
    WARP = 32
    REGISTERS = 65536            # of a multiprocessor
    FREE_SHARED = 49152          # bytes of dynamic shared memory that every launch may ask for
    BLOCK_SHARED = 1024          # bytes of shared memory that the system takes of each block
    MOST_STRIDE = 2147483647     # bytes from event to event that a kernel can multiply by
    MAX_ROWS = 65535             # a row has 16 bits, all of them set for none


# The sections of ops.def that the kernel program_chain has lie before the one and from the other on.
cdef str END_OF_BASIC = "obs_e"
cdef str FIRST_OF_CHAINS = "com_p_in"


cdef class Layout:
    def __cinit__(self, program, list output_shared, list places, tuple drawn, bint interpreted):
        """`places`: for each output of the program, its operand; `drawn`: inputs that are random numbers."""
        cdef Column column
        cdef int i, k, at
        cdef object sections = columns(program, output_shared, drawn)
        if interpreted:
            program.encode(op_table())       # raises for an op that is not there
            rows = assign_rows(program, sections, op_table())
            sections, self.n_rows = rows.sections, rows.count
            self.add_code(rows.code, program.constants)
        for i, found in enumerate(sections):
            for given in found:
                column.operand = places[given.argument] if kOutputs <= i < kDraws else given.argument
                column.n_index = len(given.index)
                for k in range(column.n_index):
                    column.index[k] = given.index[k]
                column.rows = 0
                for k, register in enumerate(given.registers):
                    column.rows |= <uint64_t>(register & 0xffff) << (16 * k)
                self.it.columns[i].push_back(column)
        at = (self.it.code.size() + 1) // 2
        for i in range(kProgramSections):
            self.it.head.section[i].at = at
            self.it.head.section[i].n = self.it.constants.size() if i == kConstants else self.it.columns[i].size()
            at += self.it.head.section[i].n * words_of(i)
        self.it.nbytes = sizeof(ProgramHead) + 8 * at
        if self.it.nbytes > <size_t>kLargeProgram:
            raise UnsupportedOpError(
                f"function: expected at most {kLargeProgram} bytes of code and columns on a GPU, got {self.it.nbytes}")

    cdef int add_code(self, code, constants) except -1:
        cdef uint64_t bits
        cdef double number
        cdef int op, n_in, n_out
        if self.n_rows > MAX_ROWS:
            raise UnsupportedOpError(
                f"function: expected at most {MAX_ROWS} values at once on a GPU, got {self.n_rows}")
        for number in constants:
            memcpy(&bits, &number, 8)
            self.it.constants.push_back(bits)
        table = op_table()
        self.chains_only = True
        self.it.head.n_steps = len(code)
        for step in code:
            if isinstance(step, Store):
                if step.column > <int>kMaxProgramValues:
                    raise UnsupportedOpError(f"function: expected at most {kMaxProgramValues} numbers of an event on a "
                                             f"GPU, got {step.column}")
                self.add_word(<uint32_t>kStoreOp | <uint32_t>step.section << 10 | <uint32_t>step.column << 21, False)
                continue
            n_in, n_out = len(step.inputs), len(step.outputs)
            if max(n_in, n_out) > <int>kMaxProgramValues:
                raise UnsupportedOpError(f"function: expected at most {kMaxProgramValues} values of an operation on a "
                                         f"GPU, got {max(n_in, n_out)}")
            op = table[step.op][0]
            self.chains_only = self.chains_only and (op < table[END_OF_BASIC][0] or op >= table[FIRST_OF_CHAINS][0])
            self.add_word(<uint32_t>op | <uint32_t>n_in << 10 | <uint32_t>n_out << 21, False)
            for row in (*step.inputs, *step.outputs):
                self.add_word(<uint32_t>row, True)
        return 0

    cdef void add_word(self, uint32_t word, bint is_row):
        self.it.code.push_back(word)
        self.it.is_row.push_back(is_row)


cdef int64_t events_of_a_launch = kMostEvents


def limit_launches(int64_t n_events):
    """Let a launch take this many events at most, for tests of larger batches, and return what it took before."""
    global events_of_a_launch
    before = events_of_a_launch
    events_of_a_launch = n_events
    return before


cdef int64_t most_events(const LaidOut* layout, const Operand* operands) noexcept nogil:
    cdef const Operand* x
    cdef size_t i
    cdef int section
    cdef int64_t stride
    for section in range(kInputs, kDraws):
        for i in range(layout.columns[section].size()):
            x = operands + layout.columns[section][i].operand
            stride = x.strides[0] * (x.bits // 8)
            if x.data != NULL and (stride < -MOST_STRIDE or stride > MOST_STRIDE):
                return 1
    return events_of_a_launch


cdef void lay_out(LaidOut* layout, char* args, Operand* operands, int64_t first, int64_t n, uint64_t seed,
                  uint64_t offset, int block) noexcept nogil:
    cdef ProgramHead* head = <ProgramHead*>args
    cdef uint64_t* body = <uint64_t*>(args + sizeof(ProgramHead))
    cdef uint32_t* code = <uint32_t*>body
    cdef uint64_t* word
    cdef const Column* column
    cdef Operand* x
    cdef size_t i
    cdef int section, k
    cdef int64_t place, itemsize, apart
    head[0] = layout.head
    head.n, head.offset = <int>n, offset + <uint64_t>first
    if layout.columns[<int>kDraws].size() > 0:
        head.keys = philox_keys(seed)
    for i in range(layout.code.size()):
        code[i] = layout.code[i] * <uint32_t>(8 * block) if layout.is_row[i] else layout.code[i]
    if layout.code.size() % 2 != 0:
        code[layout.code.size()] = 0    # the other half of the last word
    if layout.constants.size() > 0:
        memcpy(body + layout.head.section[<int>kConstants].at, layout.constants.data(), 8 * layout.constants.size())
    word = body + layout.head.section[<int>kDraws].at
    for i in range(layout.columns[<int>kDraws].size()):
        column = &layout.columns[<int>kDraws][i]
        word[i] = <uint64_t>column.operand << 32 | column.rows
    for section in range(kInputs, kDraws):
        word = body + layout.head.section[section].at
        for i in range(layout.columns[section].size()):
            column = &layout.columns[section][i]
            x = operands + column.operand
            if x.data == NULL:           # a number
                word[0], word[1], word[2] = 0, <uint64_t>x.shape[0], column.rows | <uint64_t>1 << 32
                word += kColumnWords
                continue
            itemsize = x.bits // 8
            place = 0 if section == kOnceOutputs or section == kOnceIntOutputs else first * x.strides[0]
            for k in range(column.n_index):
                place += column.index[k] * x.strides[1 + k]
            word[0] = <uint64_t>(x.data + place * itemsize)
            word[1] = <uint64_t>(x.strides[0] * itemsize)
            if section != kFourInputs and section != kFourOutputs:
                word[2] = column.rows
                word += kColumnWords
                continue
            apart = x.strides[column.n_index] * itemsize
            word[2] = 0 if apart == 8 and word[0] % 16 == 0 and word[1] % 16 == 0 else <uint64_t>apart
            word[3] = column.rows
            word += kFourWords


cdef class Plan:
    def __cinit__(self, program, list output_shared, list places, tuple drawn, str kernels):
        self.program, self.output_shared, self.places = program, output_shared, places
        self.drawn, self.kernels = drawn, kernels
        self.on_devices = {}

    cdef OnDevice on_device(self, Device device, Stream stream):
        cdef OnDevice here = self.on_devices.get(device.id)
        if here is None:
            here = self.fused(device, stream)
            if here is None:
                here = self.interpreted(device, stream)
            self.on_devices[device.id] = here
        return here

    cdef OnDevice fused(self, Device device, Stream stream):
        """Find or compile the fused kernel; None where there is none."""
        cdef OnDevice here = OnDevice.__new__(OnDevice)
        if self.kernels == "interpreted":
            return None
        name = fused_name(self.program, self.output_shared, self.drawn)
        stem = shipped_stem(name) if self.kernels != "compiled" else None
        if stem is None and self.kernels == "shipped":
            return None
        here.layout = Layout(self.program, self.output_shared, self.places, self.drawn, False)
        if stem is not None:
            here.kernel = shipped_module(stem, device, stream).get(name)
        else:
            here.kernel = fused_module(self.program, self.output_shared, self.drawn, device).get(name)
        here.kernel.function_on(device, stream)
        here.large.block = min(FUSED_BLOCK, <int>here.kernel.attributes(device).max_threads_per_block)
        here.small.block = SMALL_BLOCK
        here.large.shared = here.small.shared = 0
        return here

    cdef OnDevice interpreted(self, Device device, Stream stream):
        """Load the interpreter and choose its blocks.

        Large ones, whose warps go through the code together, unless smaller ones keep a fifth more threads at work.
        """
        cdef OnDevice here = OnDevice.__new__(OnDevice)
        cdef int limit = device.max_shared_per_block, whole = device.max_shared_per_multiprocessor
        cdef int64_t row, need, threads, resident, most = 0
        cdef int block
        here.layout = Layout(self.program, self.output_shared, self.places, self.drawn, True)
        row = 8 * here.layout.n_rows
        if here.layout.it.nbytes > <size_t>kSmallProgram:
            name = "program_large"
        else:
            name = "program_chain" if here.layout.chains_only else "program_small"
        here.kernel = shipped_module("program", device, stream).get(name)
        here.kernel.function_on(device, stream)
        attributes = here.kernel.attributes(device)
        resident = REGISTERS // attributes.registers
        block = attributes.max_threads_per_block
        if row * WARP > limit:
            raise UnsupportedOpError(f"function: expected at most {limit // (8 * WARP)} values at once on "
                                     f"{device.name}, got {row // 8}")
        while block >= WARP:
            need = row * block
            threads = min(whole // (need + BLOCK_SHARED), resident // block) * block
            if need <= limit and 5 * threads > 6 * most:
                most = threads
                here.large.block, here.large.shared = block, <unsigned int>need
            block -= WARP
        here.small = here.large
        if here.large.block > SMALL_BLOCK:
            here.small.block, here.small.shared = SMALL_BLOCK, <unsigned int>(row * SMALL_BLOCK)
        if here.large.shared > FREE_SHARED:
            here.kernel.set_max_dynamic_shared(limit, device)
        # The rest is cache.
        used = most // here.large.block * (here.large.shared + BLOCK_SHARED)
        here.kernel.set_shared_carveout((100 * used + whole - 1) // whole, device)
        return here


cdef int words_of(int section):
    if section == kConstants or section == kDraws:
        return 1
    return kFourWords if section == kFourInputs or section == kFourOutputs else kColumnWords
