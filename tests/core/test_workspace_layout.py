"""Layouts: the regions of a workspace."""

import numpy as np
import pytest

from madspace.core.workspace import Workspace, WorkspaceLayout
from madspace.errors import WorkspaceError


def test_regions():
    layout = WorkspaceLayout()
    assert (layout.nbytes, layout.alignment, len(layout)) == (0, 1, 0)
    regions = ((100, 256), (0, 1), (300, 256), (8, 8))
    assert [layout.reserve(nbytes, alignment=alignment) for nbytes, alignment in regions] == [0, 1, 2, 3]
    assert [layout.offset(i) for i in range(4)] == [0, 100, 256, 560]
    assert [layout.size(i) for i in range(4)] == [100, 0, 300, 8]
    assert (layout.nbytes, layout.alignment, len(layout)) == (568, 256, 4)
    assert repr(layout) == "<WorkspaceLayout of 4 regions in 568 bytes, aligned to 256>"
    for index in (-1, 4):
        with pytest.raises(IndexError, match=f"index: expected a region from 0 to 3, got {index}"):
            layout.offset(index)


def test_regions_that_are_none():
    layout = WorkspaceLayout()
    for alignment in (0, -1, 3, 1 << 21):
        with pytest.raises(ValueError, match="alignment: expected a power of two from 1 to 1048576"):
            layout.reserve(8, alignment=alignment)
    with pytest.raises(ValueError, match="nbytes: expected 0 or more, got -1"):
        layout.reserve(-1)
    layout.reserve(1 << 61)
    for nbytes in (1 << 62, 1 << 70):
        with pytest.raises(OverflowError, match=r"at most 2\*\*62 bytes"):
            layout.reserve(nbytes)
    assert (layout.nbytes, len(layout)) == (1 << 61, 1)


@pytest.mark.parametrize("where", ["device", "cpu"])
def test_carving(device, where):
    layout = WorkspaceLayout()
    layout.reserve(100)
    layout.reserve(0)
    layout.reserve(50)
    workspace = Workspace(layout.nbytes, device if where == "device" else "cpu")
    first, none, last = workspace.carve(layout)
    assert (first.ptr, last.ptr) == (workspace.ptr, workspace.ptr + 256)
    assert [part.nbytes for part in (first, none, last)] == [100, 0, 50]
    last.copy_from(np.arange(50, dtype=np.uint8))
    assert workspace.tensor().numpy()[256:].tolist() == list(range(50))
    layout.reserve(1)
    with pytest.raises(WorkspaceError, match=f"too small: expected at least {layout.nbytes} bytes, got 306"):
        workspace.carve(layout)
    assert workspace.largest_request == layout.nbytes
