"""Kimi Delta Attention, forward: linear attention whose state forgets channel by channel and corrects itself.

`fwd` is called as FlashKDA's (``from madspace import kda as flash_kda``), and does more: on a GPU or the CPU, with
arrays of any library, packed sequences, states from a pool, states within sequences, grouped value heads, strided
inputs and a caller's workspace. Source: Kimi Team, Kimi Linear, arXiv:2510.26692.

Workspaces
----------
Where there are few heads and sequences, the work of a chunk that needs no state is done ahead by the whole GPU and
handed over in memory. `get_workspace_size` tells how much is needed; more is fine. It is little where there are many
heads and sequences, so for calls of several kinds the largest of their sizes counts.

- Without ``workspace=`` a call allocates what it uses in stream order, and gives it back behind its kernels.
- With one a call allocates nothing. The memory is the caller's, before and after; what is in it does not matter, since
  no kernel reads a byte that the same call has not written, and nothing in it outlives the call.
- A `madspace.Workspace` may be used from several streams and threads: on the device one call comes behind the other,
  inside one capture as well, and two captures at a time are refused. What is captured with it keeps it.
- Of any other uint8 array (`allocate_workspace` makes one of q's kind) the order is the caller's to see to: two calls
  whose kernels may run at the same time, graph launches among them, need two arrays.
- Calls on the CPU check a workspace and do not use it.

Determinism
-----------
The same inputs give the same bits, call after call, on one kind of device: work is dealt out by sizes alone, and no sum
depends on who comes first. The CPU's result does not depend on the number of threads, but on the instruction set
(``MADSPACE_CPU_ISA``). Sequences do not see each other; a packed one gives what it gives alone.

Numerics
--------
States are carried in float32 whatever their dtype outside is, and are rounded once, when they are written. The CPU
computes in float32 throughout. The GPU's products have bfloat16 factors and float32 sums; chunks are inverted in
float32, by substitution, so that repeated keys do no harm. Against the recurrence in float64, in relative L2, an output
is off by 1.8e-3 where gates forget within some tokens (its own rounding is most of that) and by up to 4.2e-3 where they
keep nearly everything; a final state by 2e-3 and 3.1e-3.

What bad input does
-------------------
Types, shapes, strides, devices, alignment, shared memory and the numbers are checked before anything is queued. The
contents of integer arrays are not read on the host unless ``validate=True``, which waits; whatever they hold, nothing
outside of the arrays is touched. Two sequences with one place in a pool write it in no order. NaN and infinity come out
where the recurrence has them: in their sequence, and not before their token.
"""

from madspace.kda._forward import fwd
from madspace.kda._sizes import allocate_workspace, get_workspace_size

__all__ = ["allocate_workspace", "fwd", "get_workspace_size"]
