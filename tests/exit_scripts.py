"""Scripts for the tests of leaving: how a process begins, and the states in which it ends."""

# The hook is registered before madspace registers its own, so it runs after it: from then on every call is a fault.
# What another thread had begun before gets the time to end.
START = """
import atexit, gc, os, sys, threading, time
import fake_driver
fake = fake_driver.Fake(os.environ["MADSPACE_DRIVER_LIBRARY"])
atexit.register(lambda: (time.sleep(0.05), fake.deinitialise()))
import madspace
from madspace import Buffer, Device, Event, MemoryPool, Stream, Workspace
from madspace.errors import DriverError, ForkError
device = Device(0)
"""
OBJECTS = """
stream, event, pool = Stream(), Event(), MemoryPool()
stream.record(event)
buffers = [device.pool.allocate(100), pool.allocate(200, stream=stream)]
other = Stream()
buffers[0].fill(1, stream=other)
workspace = Workspace(100, stream=stream)
workspace.before(other)
workspace.after(other)
"""
STATES = {
    "nothing started": "",
    "module globals": OBJECTS,
    "a reference cycle": OBJECTS + "cycle = [buffers, stream, event, pool]; cycle.append(cycle)\n",
    "in another module": OBJECTS + "sys.kept = (buffers, stream, event, pool)\n",
    "closed things": OBJECTS + "[b.close() for b in buffers]; stream.close(); event.close(); pool.close()\n",
    "work that is pending": OBJECTS
    + "fake.defer(stream); fake.defer(other); [b.fill(3) for b in buffers]; buffers[1].fill(1, stream=other)\n",
    "a stream closed before its buffer": OBJECTS + "stream.close()\n",
    "thread-local state": OBJECTS + "local = threading.local(); local.x = buffers; del buffers\n",
    "a thread that ends later": OBJECTS + "threading.Thread(target=lambda b=buffers: time.sleep(0.3)).start()\n",
    "a daemon thread": OBJECTS + "threading.Thread(target=lambda b=buffers: time.sleep(9), daemon=True).start()\n",
    "a daemon thread at work": OBJECTS
    + """
def work():
    try:
        while True:
            pool.allocate(64).close()
    except DriverError:
        pass
threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
""",
    "a capture under way": OBJECTS
    + """
from raw_driver import checked, current
from cuda.bindings import driver
with current(0):
    checked(driver.cuStreamBeginCapture(stream.handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
buffers.clear()
""",
    "graphs": OBJECTS
    + """
with madspace.capture(stream) as graph:
    buffers[1].fill(1)
    device.pool.allocate(64, stream=stream).fill(2)
executable = graph.instantiate()
executable.launch(other)
""",
    "a capture of our own under way": OBJECTS
    + """
made = madspace.capture(stream)
graph = made.__enter__()
buffers[1].fill(1)
""",
    "a sticky error": OBJECTS + "fake.sticky(700)\n",
    "an own destructor that closes": OBJECTS
    + """
class Owner:
    def __del__(self):
        for thing in (*self.things, self.stream):
            thing.close()
owner = Owner(); owner.things = buffers; owner.stream = stream
""",
}

FORK = """
def in_child(action):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        action()
        sys.stdout.flush()
        sys.exit(0)
    return os.waitpid(pid, 0)[1]
"""

# The same without the fake driver, and the states that need none of its services.
PLAIN_START = "\n".join(line for line in START.splitlines() if "fake" not in line) + "\n"
PLAIN_STATES = {name: script for name, script in STATES.items() if "fake." not in script}
