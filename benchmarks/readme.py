"""Put the figures of benchmarks/results/h200.json into README.md, so that the two cannot drift apart.

``python benchmarks/readme.py`` rewrites what stands between the two marks there, and a test fails where that changes
anything.
"""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
RESULT = ROOT / "benchmarks" / "results" / "h200.json"
PLOT = "benchmarks/results/h200/latency.png"
BEGIN, END = "<!-- figures: begin -->\n", "<!-- figures: end -->\n"

POINTS = "order=[0, 1] power=0.8 n="
MAPPING = f"cuda {POINTS}"
PROGRAM, GRADIENTS = "program shipped order=[0, 1] own n=1000000", "program gradients order=[0, 1] n=1000000"
# What, the suite and the case, whose figure, what beside it, whose figure there.
ROWS = (
    ("launch of a kernel with two arguments", "latency", "launch", "madspace", "C", "c"),
    ("the same, bound", "latency", "launch_bound", "madspace", "C", "c"),
    ("allocation and free of 64 KiB", "latency", "allocate_and_free_64_kib", "madspace", "C", "c"),
    ("record of an event and wait for it", "latency", "record_and_wait", "madspace", "C", "c"),
    ("launch of a graph of 10 kernels", "latency", "launch_graph", "madspace", "C", "c"),
    ("map 1 000 events: call and wait", "phasespace", f"{MAPPING}1000", "call_and_wait", "C", "c_launch_and_wait"),
    ("map 1 000 events: enqueue", "phasespace", f"{MAPPING}1000", "host", "C", "c_launch"),
    ("map 1 000 000 events: device", "phasespace", f"{MAPPING}1000000", "device", "copy", "floor"),
    ("map 10 000 000 events: device", "phasespace", f"{MAPPING}10000000", "device", "copy", "floor"),
    ("map 1 000 000 events, random numbers drawn inside", "phasespace", PROGRAM, "device", "copy", "floor"),
    ("gradients of 1 000 000 events", "phasespace", GRADIENTS, "device", "copy", "floor"),
    ("10 000 000 events, NumPy to NumPy", "phasespace", f"numpy {POINTS}10000000", "call", "staged", "staged_copies"),
    ("KDA, T = 8192, 96 heads", "kda", "cuda fixed-t8192-h96 fast", "replay", "copy", "floor"),
    ("KDA, 8 sequences of 1024, 96 heads", "kda", "cuda varlen-1024x8-h96 fast", "replay", "copy", "floor"),
    ("KDA, T = 2048, 8 heads", "kda", "cuda fixed-t2048-h8 fast", "replay", "copy", "floor"),
    ("KDA, T = 256, 1 head", "kda", "cuda fixed-t256-h1 fast", "replay", "copy", "floor"),
    ("KDA, one token of 64 sequences, 32 heads", "kda", "cuda decode-b64-t1-h32 fast", "replay", "copy", "floor"),
    ("the same: enqueue", "kda", "cuda decode-b64-t1-h32 fast", "host", "C", "c_launch"),
)


def number(x: float) -> str:
    """Return microseconds with three digits or all whole ones."""
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def section(result: dict[str, Any]) -> str:
    """Return what belongs between the marks: where it was measured, the table, the plot."""
    origin = result["provenance"]
    lines = [
        f"{origin['device']}, {origin['processor']}, commit {origin['commit']}; medians in microseconds.",
        "C: the same driver calls from C, in turn in the same run. Copy: the time in which a device copy moves as many",
        "bytes, the least that inputs and outputs need. Staged: the same copies between NumPy and the GPU alone.",
        "",
        "| | us | beside | there | ratio |",
        "| --- | ---: | --- | ---: | ---: |",
    ]
    for what, suite, case, who, beside, there in ROWS:
        figures = result["benchmarks"][suite]["cases"][case]
        ours, theirs = (x if isinstance(x, float) else x["median"] for x in (figures[who], figures[there]))
        lines.append(f"| {what} | {number(ours)} | {beside} | {number(theirs)} | {ours / theirs:.2f} |")
    lines += ["", f"![Host time of single operations beside C and other libraries]({PLOT})"]
    return "\n".join(lines) + "\n"


def updated(readme: str, result: dict[str, Any]) -> str:
    """Return the text of README.md with the figures of a result."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + section(result) + END + after


def main() -> None:
    """Rewrite README.md."""
    README.write_text(updated(README.read_text(), json.loads(RESULT.read_text())))


if __name__ == "__main__":
    main()
