"""Functions as files: those of MadSpace 0.2.1 are read, and what is written has its form."""

import json

import pytest
from program_points import FOLDER, NAMES, function_of, names_of

import madspace
from madspace import BatchSize, Function, FunctionBuilder, NamedTypes, Type, batch_float, single_float


def saved(function, tmp_path):
    """Return the text that a function is saved as."""
    path = tmp_path / "function.json"
    function.save(path)
    return path.read_text()


@pytest.mark.parametrize("name", NAMES)
def test_files_of_madspace_come_back_the_same(name, tmp_path):
    """Loading numbers globals in the order of the file and closes gaps, so numbers are compared from then on."""
    function = Function.load(FOLDER / f"{name}.json")
    theirs = json.loads((FOLDER / f"{name}.json").read_text())
    text = saved(function, tmp_path)
    ours = json.loads(text)
    assert [x["name"] for x in ours["instructions"]] == [x["name"] for x in theirs["instructions"]]
    assert ours.keys() == theirs.keys()
    for key in ("inputs", "outputs", "globals", "instructions"):
        assert [x.keys() for x in ours[key]] == [x.keys() for x in theirs[key]]
    again = Function.load(tmp_path / "function.json")
    text = saved(again, tmp_path)
    third = Function.load(tmp_path / "function.json")
    assert (str(third), saved(third, tmp_path)) == (str(again), text)


@pytest.mark.parametrize("name", ["uniform_forward", "breit_wigner_inverse", "two_body_decay_forward"])
def test_files_without_gaps_are_the_same_text(name, tmp_path):
    path = FOLDER / f"{name}.json"
    assert saved(Function.load(path), tmp_path) == path.read_text()


def test_every_kind_of_entry_comes_back(tmp_path):
    def fill(b, x, s):
        scaled = b.mul(x, b.get_global("g", madspace.float, []))
        rows = b.invariants_from_momenta(b.stack([b.com_p_in(x)[0]] * 2), [[1.0, -1.0], [0.5, float("inf")]])
        tail = [b.max(x, float("-inf")), b.add(x, float("nan")), b.sample_discrete(s, 3)[0]]
        return [scaled, rows, *tail, 2.5, b.full([1, b.batch_size([x]), 2])]

    function = function_of([batch_float, single_float], fill)
    text = saved(function, tmp_path)
    again = Function.load(tmp_path / "function.json")
    assert saved(again, tmp_path) == text
    assert [x.type for x in again.outputs] == [x.type for x in function.outputs]
    assert '{"data":[1.0,-1.0,0.5,"+inf"],"dtype":"float","shape":[2,2]}' in text
    assert '{"data":"-inf","dtype":"float","shape":[]}' in text
    assert '{"data":"nan","dtype":"float","shape":[]}' in text
    assert '{"batch_size":1,"dtype":"float","local":1,"name":"x1","shape":[]}' in text


def test_sums_of_batch_sizes(tmp_path):
    types = NamedTypes(
        [
            ("sizes", madspace.multichannel_batch_size(2)),
            ("x", Type(madspace.float, BatchSize("a") + BatchSize("b") + BatchSize("b"), [])),
        ]
    )
    text = saved(FunctionBuilder(types, NamedTypes()).function(), tmp_path)
    rest = '[{"batch_size":["batch_size"],"factor":1},{"batch_size":["channel_size_0"],"factor":-1}]'
    assert f'"batch_sizes":["channel_size_0",{rest}]' in text
    again = Function.load(tmp_path / "function.json")
    assert again.inputs["sizes"].type == types["sizes"]
    assert str(again.inputs["x"].type) == "float[a+2*b]"


def test_streams_come_back(tmp_path):
    document = json.loads((FOLDER / "t_chain_forward.json").read_text())
    document["instructions"][3]["stream_index"] = 2
    (tmp_path / "function.json").write_text(json.dumps(document))
    assert Function.load(tmp_path / "function.json").instructions[3].stream_index == 2


def test_dead_and_repeated_instructions_go(tmp_path):
    document = json.loads((FOLDER / "uniform_forward.json").read_text())
    document["instructions"] += [{"name": "square", "inputs": [0], "outputs": [i], "stream_index": 0} for i in (50, 51)]
    (tmp_path / "function.json").write_text(json.dumps(document))
    assert names_of(Function.load(tmp_path / "function.json")) == ["uniform_invariant"]


DOCUMENT = {
    "inputs": [{"name": "x", "local": 0, "dtype": "float", "batch_size": "batch_size", "shape": []}],
    "outputs": [{"name": "y", "local": 1, "dtype": "float", "shape": []}],
    "globals": [],
    "instructions": [{"name": "sqrt", "inputs": [0], "outputs": [1], "stream_index": 0}],
}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"instructions": [{"name": "zork", "inputs": [], "outputs": []}]}, ValueError, "MadSpace 0.2.1, got 'zork'"),
        (
            {"instructions": [{"name": "nonzero", "inputs": [0], "outputs": [1]}]},
            madspace.UnsupportedOpError,
            "nonzero",
        ),
        ({"instructions": [{"name": "relu", "inputs": [0], "outputs": [1]}]}, madspace.UnsupportedOpError, "relu"),
        ({"instructions": [{"name": "sqrt", "inputs": [7], "outputs": [1]}]}, ValueError, "an earlier value, got 7"),
        (
            {"instructions": [{"name": "sqrt", "inputs": [0], "outputs": [1, 2]}]},
            ValueError,
            "expected 1 outputs, got 2",
        ),
        ({"instructions": [{"name": "sqrt", "inputs": [0, 0], "outputs": [1]}]}, ValueError, "expected 1 arguments"),
        ({"instructions": [{"inputs": [0], "outputs": [1]}]}, ValueError, "something without 'name'"),
        ({"inputs": [{"name": "x"}]}, ValueError, "something without"),
        ({"inputs": [DOCUMENT["inputs"][0] | {"dtype": "double"}]}, ValueError, "double"),
        ({"inputs": [DOCUMENT["inputs"][0] | {"batch_size": 7}]}, ValueError, "expected 1, a name or a sum, got 7"),
        ({"outputs": [{"name": "y", "local": 9, "dtype": "float", "shape": []}]}, ValueError, "got 9"),
    ],
)
def test_files_that_are_no_function(change, error, message, tmp_path):
    path = tmp_path / "function.json"
    path.write_text(json.dumps(DOCUMENT | change))
    with pytest.raises(error, match=message):
        Function.load(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "7", '"x"'])
def test_text_that_is_no_function(text, tmp_path):
    path = tmp_path / "function.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="file: expected the JSON of a function"):
        Function.load(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        Function.load(tmp_path / "nothing.json")
