"""What pyproject.toml cannot say: extensions, cubins and the device headers. The work is in tools/."""

import shutil
import sys
from pathlib import Path

from setuptools import Command, setup
from setuptools.command.build import build
from setuptools.command.build_py import build_py
from setuptools.errors import CompileError

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tools"))

import build_cubins  # noqa: E402


def check_targets():
    """End at once where the targets of the kernels are not understood: they are compiled last, after minutes."""
    try:
        build_cubins.parse_targets(build_cubins.wanted_archs())
    except (RuntimeError, ValueError) as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    check_targets()  # needs no compiler, so it comes before what does

import build_native  # noqa: E402

DEVICE_HEADERS = ROOT / "cuda_src" / "include" / "madspace"
STEP_HEADERS = ROOT / "cuda_src" / "phasespace"  # what a program's own kernel includes


def link_headers():
    """Show the device headers, of which there is one copy, beside the C API's: where an installed package has both."""
    folder = ROOT / "madspace" / "include" / "madspace"
    for link in folder.iterdir():
        if not link.exists():  # a header that is gone
            link.unlink()
    for header in DEVICE_HEADERS.glob("*.h"):
        link = folder / header.name
        if not link.exists():
            link.symlink_to(Path("../../../cuda_src/include/madspace") / header.name)
    steps = folder.parent / "phasespace"
    if not steps.is_symlink():
        steps.symlink_to(Path("../../cuda_src/phasespace"))


class BuildPy(build_py):
    """Copy the package and the device headers into an empty folder, so that nothing deleted stays in a wheel."""

    def run(self):
        if not self.editable_mode:
            shutil.rmtree(Path(self.build_lib) / "madspace", ignore_errors=True)
        super().run()
        if not self.editable_mode:
            include = Path(self.build_lib) / "madspace" / "include"
            shutil.copytree(DEVICE_HEADERS, include / "madspace", dirs_exist_ok=True)
            unused = shutil.ignore_patterns("*.cu", "t_chain.def")
            shutil.copytree(STEP_HEADERS, include / "phasespace", ignore=unused, dirs_exist_ok=True)


class BuildCubins(Command):
    """Compile the kernels into madspace/_cubins; see tools/build_cubins.py."""

    description = "compile the CUDA kernels to cubins"
    user_options = [("archs=", None, "targets, as in MADSPACE_CUDA_ARCHS")]

    def initialize_options(self):
        self.archs = None
        self.build_lib = None
        self.editable_mode = False

    def finalize_options(self):
        self.set_undefined_options("build", ("build_lib", "build_lib"))
        self.archs = self.archs or build_cubins.wanted_archs()

    def run(self):
        output = ROOT / "madspace" / "_cubins"
        try:
            build_cubins.build(ROOT / "cuda_src", output, self.archs, build_native.jobs(), self.announce_progress)
        except (FileNotFoundError, RuntimeError, ValueError) as error:
            raise CompileError(str(error)) from None
        if not self.editable_mode:
            shutil.copytree(output, Path(self.build_lib) / "madspace" / "_cubins", dirs_exist_ok=True)

    def announce_progress(self, text):
        print(text, flush=True)

    def get_source_files(self):
        return [path.relative_to(ROOT).as_posix() for path in (ROOT / "cuda_src").rglob("*") if path.is_file()]

    def get_outputs(self):
        return []

    def get_output_mapping(self):
        return {}


class Build(build):
    sub_commands = [*build.sub_commands, ("build_cubins", None)]


if __name__ == "__main__":
    link_headers()
    setup(
        ext_modules=build_native.extensions(),
        cmdclass={
            "build": Build,
            "build_cubins": BuildCubins,
            "build_ext": build_native.BuildExt,
            "build_py": BuildPy,
        },
    )
