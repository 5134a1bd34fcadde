"""Which kernels run follows what the shipped code was compiled for: a device takes PTX of an earlier one, too."""

import pytest

from madspace.core._images import compiled_for
from madspace.errors import KernelImageError

# Two kernels for a single head, one for many; the driver that is only played knows the kernels and does nothing.
SCRIPT = """
import json
import pathlib
import shutil
import sys
from madspace.core import _images

targets, folder = sys.argv[1].split(","), pathlib.Path(sys.argv[2])
manifest = json.loads((_images.FOLDER / "manifest.json").read_text())
manifest["modules"] = [image for image in manifest["modules"] if image["target"] in targets]
for image in manifest["modules"]:
    shutil.copy(_images.FOLDER / image["file"], folder)
(folder / "manifest.json").write_text(json.dumps(manifest))
_images.FOLDER = folder

import fake_driver
import ml_dtypes
import numpy as np
import madspace
from madspace import kda

fake = fake_driver.load()
for heads in (1, 200):
    q = madspace.zeros((1, 32, heads, 128), ml_dtypes.bfloat16, device="cuda")
    beta = madspace.zeros((1, 32, heads), ml_dtypes.bfloat16, device="cuda")
    fake.clear_log()
    kda.fwd(q, q, q, q, beta, 1.0, gate_activated=True)
    for call in fake.log():
        if call.name.startswith("cuLaunchKernel"):
            print(call.args["kernel"], call.args.get("early", 0))
"""


@pytest.mark.parametrize(
    ("targets", "launches"),
    [
        ("sm_90a,compute_80", ["kda_prepare_128 0", "kda_scan_128 1", "kda_forward_wide_128 0"]),
        pytest.param(
            *("compute_80", ["kda_prepare_128 0", "kda_scan_128 0", "kda_forward_128 0"]),
            marks=pytest.mark.needs("ptx_images"),
        ),
    ],
    ids=["own", "ptx"],
)
def test_what_the_code_can_do_decides(run_python, tmp_path, targets, launches):
    folder = tmp_path / "images"
    folder.mkdir()
    script = SCRIPT.replace("sys.argv[1]", repr(targets)).replace("sys.argv[2]", repr(str(folder)))
    done = run_python(script)
    assert (done.returncode, done.stderr, done.faults) == (0, "", [])
    assert done.stdout.splitlines() == launches


@pytest.mark.parametrize(
    ("target", "told"), [("sm_90a", (90, True)), ("sm_120", (120, False)), ("compute_80", (80, False))]
)
def test_targets_are_read(target, told):
    assert compiled_for({"file": "x", "target": target}) == told


def test_an_unknown_target_is_refused():
    with pytest.raises(KernelImageError, match=r"^x: expected a target like 'sm_90a', got 'gfx90'$"):
        compiled_for({"file": "x", "target": "gfx90"})
