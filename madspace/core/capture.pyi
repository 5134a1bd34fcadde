from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Literal, final

from madspace.core.graph import Graph
from madspace.core.graph_node import GraphNode
from madspace.core.stream import Stream, StreamLike

@final
class Capture:
    def __enter__(self) -> Graph: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

def capture(
    stream: StreamLike,
    mode: Literal["relaxed", "thread_local", "global"] = "relaxed",
    *,
    into: Graph | None = None,
    after: Iterable[GraphNode] = (),
) -> Capture: ...
def capture_node(
    graph: Graph, stream: Stream, after: tuple[GraphNode, ...], work: Callable[[Stream], object]
) -> int: ...
