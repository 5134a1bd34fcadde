"""Where a call that has passed all checks runs: the GPU's kernels, or the host's."""

from libc.stdint cimport int64_t

from madspace.core._operand cimport Intake
from madspace.core.device cimport Device
from madspace.core.kernel cimport Kernel
from madspace.core.memory cimport Buffer, allocate
from madspace.core.module cimport shipped_module
from madspace.core.stream cimport Stream
from madspace.core.workspace cimport Workspace
from madspace.cpu._lanes cimport HostFunction, host_function, n_threads, run_pieces
from madspace.kda._args cimport Args, HostCall, Launch, N_KERNELS, Plan, kKernelStems, make_plan, n_pieces

from madspace.core._images import compiled_for, find_image
from madspace.errors import ShapeError


cdef enum:
    FREE_SHARED = 49152          # bytes of dynamic shared memory that every launch may ask for
    MIN_ROWS = 16                # of a piece of work on the host: the vectors of a token are made anew in each
    PIECES_PER_THREAD = 4        # for an even end, where there are few states
    WORTHWHILE = 1000000         # elements of states visited: some 50 us, far above the cost of handing a piece out

ARGS_NBYTES = sizeof(Args)       # of the kernels' one parameter, for run_host_kernel()

cdef str STEM = "kda_forward"
cdef HostFunction on_host = host_function("kda_forward")
cdef dict by_device = {}         # device id: KernelSet


cdef class KernelSet:
    def __cinit__(self):
        cdef int i
        self.kernels = [None] * N_KERNELS
        for i in range(N_KERNELS):
            self.shared[i] = FREE_SHARED

    cdef Kernel get(self, int channels, const Launch* launch, Stream stream):
        cdef int which = <int>launch.kernel + (0 if channels == 64 else N_KERNELS // 2)
        cdef Kernel kernel = <Kernel>self.kernels[which]
        if kernel is None:
            name = f"{kKernelStems[<int>launch.kernel].decode()}{channels}"
            kernel = shipped_module(STEM, self.device, stream).get(name)
            kernel.function_on(self.device, stream)
            self.kernels[which] = kernel
        if launch.shared > self.shared[which]:
            kernel.set_max_dynamic_shared(launch.shared, self.device)
            self.shared[which] = launch.shared
        return kernel


cdef KernelSet kernels_on(Device device):
    cdef KernelSet kernels = by_device.get(device.id)
    if kernels is None:
        kernels = KernelSet.__new__(KernelSet)
        kernels.device = device
        kernels.n_processors = device.multiprocessor_count
        kernels.shared_limit = device.max_shared_per_block
        kernels.target.capability, kernels.target.has_special = compiled_for(
            find_image(STEM, device.compute_capability))
        by_device[device.id] = kernels
    return kernels


cdef Plan prepare(KernelSet kernels, HostCall* host, Stream stream) except *:
    cdef Plan plan = make_plan(host.args, host.channels, kernels.n_processors, kernels.shared_limit, kernels.target)
    cdef int i
    if plan.problem != NULL:
        raise ShapeError(f"q: expected sizes that fit one launch, got too large a {plan.problem.decode()}")
    for i in range(plan.n_launches):
        kernels.get(host.channels, &plan.launch[i], stream)
    return plan


cdef int launch(KernelSet kernels, const Plan* plan, HostCall* host, Intake intake, Workspace workspace) except -1:
    cdef Stream stream = intake.stream
    cdef Device device = intake.device
    cdef Buffer scratch = None
    cdef Kernel kernel
    cdef void* params[1]
    cdef int pushed, i
    cdef int n_queued = 0
    if plan.n_launches == 0:
        return 0
    if workspace is None and plan.workspace_bytes > 0:
        scratch = allocate(device, plan.workspace_bytes, stream)
        host.args.records = <char*>scratch.ptr_
    params[0] = &host.args
    pushed = device.push()
    try:
        if workspace is not None:
            workspace.before(stream)
            host.args.records = <char*>workspace.lease_.tensor.data_
        try:
            if scratch is not None:
                scratch.before(stream, True)
            intake.before()
            for i in range(plan.n_launches):
                kernel = kernels.get(host.channels, &plan.launch[i], stream)
                kernel.launch_raw(plan.launch[i].grid, 1, 1, plan.launch[i].block, 1, 1, plan.launch[i].shared, stream,
                                  params, plan.launch[i].early)
                n_queued += 1
        finally:
            try:
                if n_queued > 0:        # the first of two may be on its way although the second was refused
                    if scratch is not None:
                        scratch.after(stream, True)
                    intake.after()
            finally:
                if workspace is not None:
                    workspace.after(stream)
    finally:
        device.pop(pushed)
    return 0


cdef int run_on_host(HostCall* host) noexcept nogil:
    cdef Args* args = &host.args
    cdef int64_t chains = args.n_sequences * args.value_heads
    cdef int64_t wanted
    cdef double cost
    cdef int most = (host.channels + MIN_ROWS - 1) // MIN_ROWS
    cdef int threads = n_threads()
    if chains == 0 or (args.tokens == 0 and args.final_state == NULL):
        return 0        # nothing to write, for however many sequences
    wanted = 1 if threads == 1 else (PIECES_PER_THREAD * threads + chains - 1) // chains
    host.row_blocks = <int>min(wanted, most)
    # Of one piece, where the tokens are spread evenly.
    cost = (args.batches * args.tokens / <double>args.n_sequences + 1) * host.channels * host.channels / host.row_blocks
    run_pieces(on_host.run_, host, n_pieces(host[0]), <int64_t>(WORTHWHILE / cost) + 1)
    return 0


def run_host_kernel(size_t args, int channels):
    """Run the host kernel on the arguments of the GPU's, of host addresses: ``kda::Args`` at an address.

    For tests, which let a fake driver launch it.
    """
    cdef HostCall host
    host.args = (<Args*>args)[0]
    host.channels = channels
    with nogil:
        run_on_host(&host)
