"""README.md shows what benchmarks/results/h200.json says."""

import json

import readme


def test_figures_are_those_of_the_result():
    text = readme.README.read_text()
    assert readme.updated(text, json.loads(readme.RESULT.read_text())) == text
    assert (readme.ROOT / readme.PLOT).is_file()


def test_a_change_is_seen():
    result = json.loads(readme.RESULT.read_text())
    result["benchmarks"]["latency"]["cases"]["launch"]["madspace"]["median"] = 1234.5
    assert "1234" in readme.updated(readme.README.read_text(), result)
