"""Graphs and arrays that several tests of programs use."""

import importlib.util
from pathlib import Path

import numpy as np

import madspace
from madspace import FunctionBuilder, NamedTypes

FOLDER = Path(__file__).parent / "data" / "programs"
# Made with MadSpace 0.2.1 on a CPU: its JSON files, and arrays NAME/in/ARGUMENT, NAME/global/NAME, NAME/out/RESULT.
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def _tool(name):
    """Return a module of the folder tools."""
    path = Path(__file__).resolve().parents[1] / "tools" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


fuse_programs = _tool("fuse_programs")
chain = fuse_programs.chain


def function_of(types, fill):
    """Return a function of x0, x1, ... with the results y0, y1, ... that `fill` makes of a builder and them."""
    inputs = NamedTypes([f"x{i}" for i in range(len(types))], types)

    def outputs(builder):
        made = fill(builder, *builder.input_range(0, len(types)))
        return [madspace.Value(x) if not isinstance(x, madspace.Value) else x for x in made]

    found = [value.type for value in outputs(FunctionBuilder(inputs, NamedTypes()))]
    builder = FunctionBuilder(inputs, NamedTypes([f"y{i}" for i in range(len(found))], found))
    builder.output_range(0, outputs(builder))
    return builder.function()


def names_of(function):
    """Return the names of a function's instructions."""
    return [call.instruction.name for call in function.instructions]


def upstream(name):
    """Return a function of MadSpace 0.2.1 with a context, its arguments and its results."""
    function = madspace.Function.load(FOLDER / f"{name}.json")
    with np.load(FOLDER / "reference.npz") as arrays:
        kept = {key: arrays[key] for key in arrays if key.startswith(name + "/")}
    context = madspace.Context()
    for key, array in kept.items():
        if key.startswith(f"{name}/global/"):
            dtype = madspace.int if array.dtype == np.int32 else madspace.float
            context.define_global(key.split("/")[2], dtype, array.shape[1:]).numpy()[...] = array
    inputs = [kept[f"{name}/in/{key}"] for key in function.inputs.index_map()]
    return function, context, inputs, {key: kept[f"{name}/out/{key}"] for key in function.outputs.index_map()}


def chain_arguments(n, batch, seed=1):
    """Return random arguments of a chain into n particles."""
    randoms = np.random.default_rng(seed).random((3 * n - 4, batch))
    return [*randoms, np.full(batch, 1000.0), *(np.full(batch, 10.0 * i) for i in range(n))]
