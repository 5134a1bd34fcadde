"""Objects that never came into being: their members raise, and do not crash."""

import pytest

pytestmark = pytest.mark.fake

CLASSES = (
    "core.binding:BoundKernel",
    "core.capture:Capture",
    "core.current:StreamScope",
    "core.device:Device",
    "core.event:Event",
    "core.forks:Fork",
    "core.graph:Graph",
    "core.graph_exec:GraphExec",
    "core.graph_node:GraphNode",
    "core.kernel:Kernel",
    "core.memory:Buffer",
    "core.module:Module",
    "core.pinned:PinnedBuffer",
    "core.pool:MemoryPool",
    "core.stream:Stream",
    "core.tensor:Tensor",
    "core.workspace:Workspace",
    "phasespace._event_op:EventOp",
)
CODE = """
import importlib, sys
module, name = sys.argv[1].split(":")
kind = getattr(importlib.import_module(f"madspace.{module}"), name)
try:
    made = kind.__new__(kind)
except TypeError:
    sys.exit()
calls = ((), (None,), (0,), (made,), (b"", 1), ((1,), (1,)), (made, 0, 0))
for name in dir(kind):
    if name in ("__class__", "__init__", "__init_subclass__", "__new__", "__subclasshook__"):
        continue
    print(name, flush=True)
    try:
        member = getattr(made, name)
    except Exception:
        continue
    for arguments in calls if callable(member) else ():
        try:
            member(*arguments)
        except Exception:
            pass
"""


@pytest.mark.parametrize("kind", CLASSES)
def test_objects_made_by_new_alone(run_python, kind):
    done = run_python(CODE.replace("sys.argv[1]", repr(kind)))
    assert (done.returncode, done.faults) == (0, []), [*done.stdout.split()[-1:], done.stderr]
