"""Programs against arrays that MadSpace 0.2.1 made, and reference formulas."""

import numpy as np
import pytest
from program_points import NAMES, upstream

import madspace

# Of the largest value of an array. |t|_min of the chain is rounding noise where it should vanish, in both formulas.
TOLERANCES = {"t_chain_forward/det": 1e-7, "t_chain_inverse": 1e-8, "t_chain_forward": 1e-8, "event_forward": 1e-8}


@pytest.mark.parametrize("name", NAMES)
def test_functions_of_madspace_give_its_numbers(any_executor, name):
    function, context, inputs, expected = upstream(name)
    results = madspace.FunctionRuntime(function, context)(*inputs)
    for (key, reference), result in zip(expected.items(), results, strict=True):
        assert (result.shape, result.dtype) == (reference.shape, reference.dtype), key
        assert result.flags.c_contiguous
        tolerance = TOLERANCES.get(f"{name}/{key}", TOLERANCES.get(name, 1e-11))
        scale = np.abs(reference) if key == "det" else np.abs(reference).max()
        assert np.all(np.abs(result - reference) <= tolerance * scale), key


@pytest.mark.parametrize("name", ["t_chain_forward", "event_forward", "moves"])
def test_one_event_is_as_many(reference_executor, name):
    function, context, inputs, _ = upstream(name)
    runtime = madspace.FunctionRuntime(function, context)
    many = runtime(*inputs)
    shared = [value.type.batch_size == madspace.BatchSize.one for value in function.inputs]
    few = runtime(*(x if flag else x[7:8] for x, flag in zip(inputs, shared, strict=True)))
    for a, b in zip(few, many, strict=True):
        np.testing.assert_allclose(a, b if len(b) == 1 else b[7:8], rtol=1e-13)
