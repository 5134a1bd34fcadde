"""Module: loading of every kind of image, looking kernels up, unloading."""

import gc

import pytest
from ptx_kernels import fat_binary, image
from raw_driver import capturing

from madspace.core._images import check_complete, read_image, shipped_images
from madspace.core.kernel import Kernel
from madspace.core.module import Module, loaded_images
from madspace.errors import ClosedError, DriverError, KernelImageError

NAMES = ("ms_test_axpy", "ms_test_copy", "ms_test_fill", "ms_test_spin")
BROKEN = image(".visible .entry broken()\n{\n    mov.u32 %nowhere, 1;\n    ret;\n}\n")


def cubins():
    """Return the shipped cubins."""
    return [read_image(image) for image in shipped_images() if image["target"].startswith("sm_")]


def test_bytes_paths_and_other_buffers_load(device, kernels_ptx, tmp_path):
    path = tmp_path / "kernels.ptx"
    path.write_bytes(kernels_ptx)
    for given in (kernels_ptx, bytearray(kernels_ptx), memoryview(kernels_ptx), path, str(path)):
        assert Module(given).kernel_names == NAMES
    assert Module(path).name == str(path)
    assert str(len(kernels_ptx)) in Module(kernels_ptx).name


def test_kernels_are_looked_up_by_name(module):
    kernel = module["ms_test_fill"]
    assert (kernel.name, kernel.module) == ("ms_test_fill", module)
    assert kernel.param_sizes == (8, 4, 4)
    assert module.get("ms_test_axpy").param_sizes == (8, 8, 8, 4)
    assert "ms_test_fill" in repr(kernel)


def test_a_name_that_is_not_there_lists_what_is(module):
    with pytest.raises(
        KernelImageError, match=r"no kernel named 'other'; there are: ms_test_axpy, ms_test_copy"
    ) as caught:
        module["other"]
    assert isinstance(caught.value, LookupError)


@pytest.mark.parametrize(
    "image", [b"nonsense, but long enough to look at" * 10, b".version 8.0\n.nonsense\n"], ids=["bytes", "text"]
)
def test_what_is_no_image_is_refused(device, image):
    with pytest.raises(DriverError, match="cuLibraryLoadData"):
        Module(image)


def test_no_bytes_are_refused(device):
    with pytest.raises(ValueError, match="image: expected device code, got no bytes"):
        Module(b"")


@pytest.mark.parametrize("cut", [20, 70, -1])
@pytest.mark.parametrize("kind", ["cubin", "fatbin"])
def test_an_image_whose_end_is_missing_is_refused(kernels_ptx, kind, cut):
    whole = fat_binary(kernels_ptx) if kind == "fatbin" else cubins()[0]
    with pytest.raises(KernelImageError, match=r"image: expected \d+ bytes by its header, got \d+"):
        Module(whole[:cut])


def test_whole_cubins_pass():
    for whole in cubins():
        check_complete(whole, "name")


def test_a_file_that_is_not_there(device, tmp_path):
    with pytest.raises(FileNotFoundError):
        Module(tmp_path / "none.cubin")


def test_a_fat_binary_loads(device, stream, words, kernels_ptx):
    module = Module(fat_binary(kernels_ptx))
    module["ms_test_fill"].launch(1, 32, words, 7, 1024, stream=stream)
    assert set(bytes(words.copy_to_host())) == {0, 7}


def test_messages_use_the_given_name(module, kernels_ptx, tmp_path):
    assert Module(kernels_ptx, name="mine").name == "mine"
    path = tmp_path / "kernels.ptx"
    path.write_bytes(kernels_ptx)
    named = Module(path, name="mine")
    assert named.name == "mine"
    with pytest.raises(KernelImageError, match="mine: no kernel named"):
        named["other"]


def test_a_refused_image_comes_with_the_driver_s_log(fake, device):
    with pytest.raises(DriverError, match="fake: not an image"):
        Module(b".version 8.0\n.nonsense\n")


@pytest.mark.gpu
def test_ptx_that_does_not_compile_says_why(device):
    with pytest.raises(DriverError, match=r"(?s)PTX.*nowhere") as caught:
        Module(BROKEN)["broken"].load()
    assert caught.value.code == 218


@pytest.mark.parametrize("call", ["cuKernelGetFunction", "cuFuncLoad", "cuKernelGetParamInfo"])
def test_an_image_that_fails_only_when_it_is_loaded_is_named(fake, device, kernels_ptx, call):
    module = Module(kernels_ptx, name="mine")
    with (
        fake.failing(call, code=218),
        pytest.raises(DriverError, match=f"{call}: .*kernel ms_test_fill of mine") as caught,
    ):
        module["ms_test_fill"].load()
    assert caught.value.code == 218


def test_kernels_come_from_modules_only():
    with pytest.raises(TypeError, match=r"use module\[name\]"):
        Kernel()


def test_unloading_breaks_no_capture(device, stream, kernels_ptx):
    """The collector may do it at any time."""
    dropped, closed = Module(kernels_ptx), Module(kernels_ptx)
    with capturing(stream):
        closed.close()
        del dropped
        gc.collect()


@pytest.mark.parametrize("end", ["close", "with", "drop"])
def test_every_end_unloads_once(fake, device, kernels_ptx, end):
    before = fake.counts()["library"]
    module = Module(kernels_ptx)
    if end == "close":
        module.close()
        module.close()
    elif end == "with":
        with module:
            pass
    del module
    gc.collect()
    assert len(fake.log("cuLibraryUnload")) == 1
    assert fake.counts()["library"] == before


def test_kernels_keep_their_module(fake, device, kernels_ptx):
    kernel = Module(kernels_ptx)["ms_test_spin"]
    gc.collect()
    assert not fake.log("cuLibraryUnload")
    kernel.launch(1, 1, 0, stream=device.default_stream)
    device.synchronize()


def test_a_closed_module_says_so(module, stream, words):
    kernel = module["ms_test_fill"]
    module.close()
    for use in (
        lambda: module["ms_test_fill"],
        lambda: module.kernel_names,
        kernel.attributes,
        lambda: kernel.launch(1, 1, words, 1, 1, stream=stream),
    ):
        with pytest.raises(ClosedError, match="module: expected an open module"):
            use()


def test_users_modules_are_none_of_the_shipped_images(module):
    assert all(len(sha256) == 64 for sha256 in loaded_images().values())
    assert not any("ms_test" in name for name in loaded_images())


@pytest.mark.parametrize("action", ["load", "look up", "names"])
def test_each_failure_leaves_nothing(fake, device, kernels_ptx, module, action):
    kept = []
    actions = {
        "load": lambda: kept.append(Module(kernels_ptx)),
        "look up": lambda: module["ms_test_copy"],
        "names": lambda: module.kernel_names,
    }
    actions[action]()
    kept.clear()
    gc.collect()
    before = fake.counts()
    for name, error in fake.each_failure(actions[action]):
        assert isinstance(error, DriverError), f"the failure of {name} was lost"
        del error
        kept.clear()
        assert fake.counts() == before, name
