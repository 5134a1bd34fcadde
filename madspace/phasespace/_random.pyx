"""Random numbers in memory."""

import numpy as np

from libc.stdint cimport int64_t, uint64_t

from madspace.core.current cimport pick_stream
from madspace.core.device cimport Device
from madspace.core.kernel cimport Kernel
from madspace.core.module cimport shipped_module
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport Tensor
from madspace.cpu._lanes cimport HostFunction, host_function, run_events

from madspace.core.creation import empty


cdef extern from "phasespace/random_args.h" namespace "madspace" nogil:
    cdef struct PhiloxKeys:
        pass
    PhiloxKeys philox_keys(unsigned long long seed)
    cdef struct RandomArgs:
        PhiloxKeys keys
        unsigned long long offset
        long long n, width
        unsigned int parts, pairs, events, inverse
        double* out
    unsigned int kRandomBlock
    unsigned int kRandomPairs
    unsigned int kInverseBits


cdef enum:
    DEVICE_CPU = 1

cdef HostFunction _on_host = host_function("random_uniform")
cdef dict _kernels = {}          # device id -> Kernel


def make_uniform(shape, uint64_t seed, uint64_t offset, device, stream):
    """Return new random numbers; see `madspace.random.uniform`."""
    cdef Tensor out = empty(shape, np.float64, device=device, stream=stream)
    fill(out, seed, offset, stream)
    return out


cdef int fill(Tensor out, uint64_t seed, uint64_t offset, object where) except -1:
    cdef RandomArgs args
    cdef Stream stream
    cdef Device device
    cdef Kernel kernel
    cdef int64_t count = out.count(), pairs
    cdef int pushed
    cdef void* params[1]
    if count == 0:
        return 0
    args.keys, args.offset, args.out = philox_keys(seed), offset, <double*>out.data_
    args.n = out.shape_[0] if out.ndim_ > 0 else 1
    args.width = count // args.n
    if out.device_type_ == DEVICE_CPU:
        with nogil:
            run_events(_on_host.run_, &args, args.n)
        return 0
    device = out.buffer_.stream.device
    stream = pick_stream(where, device)     # the memory may be of another one
    kernel = _kernels.get(device.id)
    if kernel is None:
        kernel = shipped_module("random", device, stream).get("random_uniform")
        kernel.function_on(device, stream)
        _kernels[device.id] = kernel
    pairs = (args.width + 1) // 2
    args.parts = <unsigned int>((pairs + kRandomPairs - 1) // kRandomPairs)
    args.pairs = <unsigned int>min(pairs, kRandomPairs)
    args.events = kRandomPairs // args.pairs
    if args.events > 1:
        args.events &= ~<unsigned int>1
    args.inverse = ((<unsigned int>1 << kInverseBits) + args.pairs - 1) // args.pairs
    params[0] = &args
    pushed = device.push()
    try:
        out.before(stream, True)
        kernel.launch_raw(<unsigned int>((args.n + args.events - 1) // args.events * args.parts), 1, 1,
                          kRandomBlock, 1, 1, 0, stream, params)
        out.after(stream, True)
    finally:
        device.pop(pushed)
    return 0
