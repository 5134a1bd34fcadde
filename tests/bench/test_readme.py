"""README.md shows what benchmarks/results/h200.json says."""

import importlib.util
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _script():
    spec = importlib.util.spec_from_file_location("readme", ROOT / "benchmarks" / "readme.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_figures_are_those_of_the_result():
    script = _script()
    text = script.README.read_text()
    assert script.updated(text, json.loads(script.RESULT.read_text())) == text
    assert (ROOT / script.PLOT).is_file()


def test_a_change_is_seen():
    script = _script()
    result = json.loads(script.RESULT.read_text())
    result["benchmarks"]["latency"]["cases"]["launch"]["madspace"]["median"] = 1234.5
    assert "1234" in script.updated(script.README.read_text(), result)
