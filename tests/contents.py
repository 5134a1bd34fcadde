"""What device memory holds, for tests that fill it with one value."""

import numpy as np


def content(buffer):
    """Return the value of all words of a buffer, which must be equal; waits for what is queued on them."""
    (value,) = set(np.frombuffer(buffer.copy_to_host(), np.uint32).tolist())
    return value


def byte(buffer, stream=None):
    """Return the value of all bytes of a buffer, which must be equal."""
    (value,) = set(buffer.copy_to_host(stream=stream))
    return value
