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


def chain(n, power=0.8):
    """Return a t-channel chain into n particles as MadSpace 0.2.1 builds it with the order 0, 1, ..."""
    names = [*(f"random{i}" for i in range(3 * n - 4)), "com_energy", *(f"mass{i}" for i in range(n))]
    outputs = [*(f"momentum{i}" for i in range(n + 2)), "det"]
    types = [madspace.batch_four_vec] * (n + 2) + [madspace.batch_float]
    b = FunctionBuilder(NamedTypes(names, [madspace.batch_float] * len(names)), NamedTypes(outputs, types))
    randoms = iter(b.input_range(0, 3 * n - 4))
    energy, *masses = b.input_range(3 * n - 4, len(names))
    recoils, dets = [energy], []
    for i in range(n - 2):
        low, high = b.square(b.sum(masses[i + 1 :])), b.square(b.sub(recoils[i], masses[i]))
        s, det = b.uniform_invariant(next(randoms), low, high)
        recoils.append(b.sqrt(s))
        dets.append(det)
    recoils.append(masses[-1])
    beams = b.com_p_in(energy)
    momenta, leg = [], beams[0]
    for i in range(n - 1):
        r_phi, r_t, pair = next(randoms), next(randoms), (masses[i], recoils[i + 1])
        limits = b.t_inv_min_max(leg, beams[1], *pair)
        t, det_t = b.stable_invariant_nu(r_t, 0.0, power, *limits)
        scatter = b.two_to_two_particle_scattering if i else b.two_to_two_particle_scattering_com
        first, rest, det = scatter(r_phi, leg, beams[1], t, *pair)
        momenta.append(first)
        leg = b.sub(leg, first)
        dets += [det_t, det]
    b.output_range(0, [*beams, *momenta, rest, b.product(dets)])
    return b.function()


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


def upstream(name, device="cpu"):
    """Return a function of MadSpace 0.2.1 with a context on a device, its arguments and its results."""
    function = madspace.Function.load(FOLDER / f"{name}.json")
    with np.load(FOLDER / "reference.npz") as arrays:
        kept = {key: arrays[key] for key in arrays if key.startswith(name + "/")}
    context = madspace.Context(device)
    for key, array in kept.items():
        if key.startswith(f"{name}/global/"):
            dtype = madspace.int if array.dtype == np.int32 else madspace.float
            context.define_global(key.split("/")[2], dtype, array.shape[1:]).copy_from(array)
    inputs = [kept[f"{name}/in/{key}"] for key in function.inputs.index_map()]
    return function, context, inputs, {key: kept[f"{name}/out/{key}"] for key in function.outputs.index_map()}


def chain_arguments(n, batch, seed=1):
    """Return random arguments of a chain into n particles."""
    randoms = np.random.default_rng(seed).random((3 * n - 4, batch))
    return [*randoms, np.full(batch, 1000.0), *(np.full(batch, 10.0 * i) for i in range(n))]
