"""Steps against arrays of MadSpace 0.2.1 (`tests/data/steps_reference.npz`), to the digits that these carry."""

from pathlib import Path

import numpy as np
import pytest
from op_calls import call_op

pytestmark = pytest.mark.usefixtures("where")

REFERENCE = np.load(Path(__file__).resolve().parents[1] / "data" / "steps_reference.npz")


def expect(got, momenta, det, tolerance):
    momenta = np.concatenate(momenta, axis=1).T
    scale = np.abs(momenta).max()
    np.testing.assert_allclose(got[: len(momenta)], momenta, atol=tolerance * scale)
    np.testing.assert_allclose(got[-1], det, rtol=1e3 * tolerance)


def test_two_body_decay():
    z = {k[4:]: v for k, v in REFERENCE.items() if k.startswith("two_")}
    inputs = (*z["r"].T, z["m0"], z["m1"], z["m2"])
    got = call_op("two_body_decay", *inputs, z["p0"])
    expect(got, [z["decay_p1"], z["decay_p2"]], z["decay_det"], 1e-11)
    expect(call_op("two_body_decay_com", *inputs), [z["decay_com_p1"]], z["decay_com_det"], 1e-13)


@pytest.mark.parametrize("com", [True, False], ids=["com", "lab"])
def test_two_to_two(com):
    z = {k[4:]: v for k, v in REFERENCE.items() if k.startswith("two_")}
    suffix = "_com" if com else ""
    legs = (z["pa" + suffix], z["pb" + suffix])
    low, high = call_op("t_inv_min_max", *legs, z["m1"], z["m2"])
    t, weight = call_op("stable_invariant_nu", z["r"][:, 1], 0.0, 0.8, low, high)
    got = call_op("two_to_two_particle_scattering" + suffix, z["r"][:, 0], *legs, t, z["m1"], z["m2"])
    got[8] *= weight
    expect(got, [z[f"scat{suffix}_p1__p0.8"]], z[f"scat{suffix}_det__p0.8"], 1e-8)


def test_three_body_decay():
    z = {k[6:]: v for k, v in REFERENCE.items() if k.startswith("three_")}
    inputs = (*z["r"].T, z["m0"], *z["masses"].T)
    expect(call_op("three_body_decay_com", *inputs), [z["com_p"].reshape(-1, 12)], z["com_det"], 1e-11)
    expect(call_op("three_body_decay", *inputs, z["p0"]), [z["p"].reshape(-1, 12)], z["det"], 1e-10)


@pytest.mark.parametrize("massive", [True, False], ids=["massive", "massless"])
def test_fast_rambo(massive):
    z = {k[6:]: v for k, v in REFERENCE.items() if k.startswith("rambo_")}
    name = "massive" if massive else "massless"
    extra = (z["masses"],) if massive else ()
    got = call_op(f"fast_rambo_{name}_com", z["r"], z["e_cm"], *extra, n_out=17)
    # The slopes of the map are fitted anew: equal to some 10 digits.
    expect(got, [z[name + "_p"].reshape(-1, 16)], z[name + "_det"], 1e-8)
