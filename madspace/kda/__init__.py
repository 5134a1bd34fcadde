"""Kimi Delta Attention, forward: linear attention whose state forgets channel by channel and corrects itself.

`fwd` is called as FlashKDA's, and more: on a GPU or the CPU, with arrays of any library, packed sequences, states from
a pool, states within sequences, grouped value heads, and a caller's workspace.
"""

from madspace.kda._forward import fwd
from madspace.kda._sizes import allocate_workspace, get_workspace_size

__all__ = ["allocate_workspace", "fwd", "get_workspace_size"]
