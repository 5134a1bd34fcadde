from madspace.core._operand cimport Intake
from madspace.core.device cimport Device
from madspace.core.kernel cimport Kernel
from madspace.core.stream cimport Stream
from madspace.core.workspace cimport Workspace
from madspace.kda._args cimport HostCall, Launch, N_KERNELS, Plan, Target


# The kernels of one device, each loaded when it is first needed.
cdef class KernelSet:
    cdef Device device
    cdef int n_processors
    cdef int shared_limit
    cdef Target target
    cdef list kernels            # Kernel or None: for 64 channels by KernelId, then for 128
    cdef unsigned int shared[N_KERNELS]   # dynamic shared memory that each may ask for
    cdef Kernel get(self, int channels, const Launch* launch, Stream stream)


cdef KernelSet kernels_on(Device device)

# Decides how the call runs and makes its kernels ready: what can fail before anything is allocated or queued.
cdef Plan prepare(KernelSet kernels, HostCall* host, Stream stream) except *

# Queues the launches of a plan, in order with what the intake holds. workspace None: one is made where it is needed.
cdef int launch(KernelSet kernels, const Plan* plan, HostCall* host, Intake intake, Workspace workspace) except -1

# Runs the call on the host, on as many threads as are worth it.
cdef int run_on_host(HostCall* host) noexcept nogil
