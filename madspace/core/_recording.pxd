from libc.stdint cimport uint64_t

from madspace.core._code_image cimport CodeImage, CodeImages
from madspace.core.device cimport Device
from madspace.core.stream cimport Stream


# A capture of our own while it goes on: what its graph will need.
cdef class Recording:
    cdef Stream stream
    cdef uint64_t id             # the driver's, of the capture
    cdef dict memory             # {id(object): [Buffer, PinnedBuffer, Foreign or Lease, whether it is written]}
    cdef CodeImages images       # of the kernels
    cdef Stream side             # where memory was taken meanwhile; None if there was none
    cdef int note(self, object memory, bint write) except -1


# How many go on: who looks at it first pays nothing while there are none.
cdef int n_recordings

cdef int begin_recording(Recording recording) except -1
cdef int end_recording(Recording recording) noexcept
cdef Recording recording_of(Stream stream)          # that the stream takes part in; None
cdef Recording recording_with(object memory)        # that uses the memory; None

# For what is used on a stream, after its use: no-ops where the stream is in no capture of ours.
cdef int note_memory(Stream stream, object memory, bint write) except -1     # see Recording.memory
cdef int note_image(Stream stream, CodeImage image) except -1

# A new stream, made whatever this thread captures in whatever mode.
cdef Stream make_stream(Device device)
# A stream of the recording's device that no one captures.
cdef Stream side_stream(Recording recording)
