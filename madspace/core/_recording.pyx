"""What captures of our own take note of while they go on: memory and device code that their graphs need."""
import _thread

cimport cython
from libc.stdint cimport uint64_t

from cuda.bindings.cydriver cimport CUstreamCaptureMode

from madspace.core cimport _driver as drv
from madspace.core._code_image cimport CodeImage, CodeImages
from madspace.core.device cimport Device
from madspace.core.stream cimport Stream

from madspace.core.stream import Stream as new_stream

cdef object changing = _thread.RLock()
cdef dict recordings = {}       # {id of the capture: Recording}
cdef dict sides = {}            # {device id: Stream}
n_recordings = 0


@cython.final
@cython.no_gc_clear         # the images are needed until the capture has ended
cdef class Recording:
    def __cinit__(self):
        self.memory = {}
        self.images = CodeImages.__new__(CodeImages)

    cdef int note(self, object memory, bint write) except -1:
        entry = self.memory.get(id(memory))
        if entry is None:
            self.memory[id(memory)] = [memory, bool(write)]
        elif write:
            entry[1] = True
        return 0


cdef int begin_recording(Recording recording) except -1:
    global n_recordings
    with changing:
        recordings[recording.id] = recording
        n_recordings = len(recordings)
    return 0


cdef int end_recording(Recording recording) noexcept:
    global n_recordings
    with changing:
        recordings.pop(recording.id, None)
        n_recordings = len(recordings)
    return 0


cdef Recording recording_of(Stream stream):
    cdef uint64_t capture
    cdef int pushed
    if n_recordings == 0:
        return None
    pushed = stream.device.push()
    try:
        with nogil:
            drv.stream_get_capture_info(stream.handle_, &capture)
    finally:
        stream.device.pop(pushed)
    return recordings.get(capture) if capture != 0 else None


cdef Recording recording_with(object memory):
    cdef Recording recording
    for recording in list(recordings.values()):
        if id(memory) in recording.memory:
            return recording
    return None


cdef int note_memory(Stream stream, object memory, bint write) except -1:
    cdef Recording recording = recording_of(stream)
    return 0 if recording is None else recording.note(memory, write)


cdef int note_image(Stream stream, CodeImage image) except -1:
    cdef Recording recording = recording_of(stream)
    return 0 if recording is None else recording.images.add(image)


cdef Stream make_stream(Device device):
    cdef CUstreamCaptureMode mode = drv.relax()
    try:
        return new_stream(device)
    finally:
        drv.restore(mode)


cdef Stream side_stream(Recording recording):
    cdef Device device = recording.stream.device
    if recording.side is None:
        side = sides.get(device.id)
        recording.side = sides.setdefault(device.id, make_stream(device)) if side is None else side
    return recording.side
