"""Kernels that tests write as PTX, with host twins for the fake driver: what they were given comes out again."""

from __future__ import annotations

import ctypes
import struct

import fake_driver

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"


def echo(size: int) -> str:
    """PTX of ``echo_SIZE(uint8* out, T x)``: copies the bytes of x, a parameter of that size, to out."""
    copies = "".join(f"    ld.param.u8 %r1, [x+{i}];\n    st.global.u8 [%rd2+{i}], %r1;\n" for i in range(size))
    return (
        f".visible .entry echo_{size}(.param .u64 out, .param .align 8 .b8 x[{size}])\n{{\n"
        "    .reg .b32 %r<2>;\n    .reg .b64 %rd<3>;\n"
        "    ld.param.u64 %rd1, [out];\n    cvta.to.global.u64 %rd2, %rd1;\n"
        f"{copies}    ret;\n}}\n"
    )


def many(n: int) -> str:
    """PTX of ``many_N(uint64* out, uint64 x1, ...)``, N parameters in all: out[i] = x(i + 1)."""
    params = ", ".join(f".param .u64 x{i}" for i in range(n))
    stores = "".join(
        f"    ld.param.u64 %rd3, [x{i}];\n    st.global.u64 [%rd2+{8 * i - 8}], %rd3;\n" for i in range(1, n)
    )
    first = "    ld.param.u64 %rd1, [x0];\n    cvta.to.global.u64 %rd2, %rd1;\n" if n else ""
    return f".visible .entry many_{n}({params})\n{{\n    .reg .b64 %rd<4>;\n{first}{stores}    ret;\n}}\n"


def image(*kernels: str) -> bytes:
    """Put kernels into one image."""
    return (HEADER + "\n".join(kernels)).encode()


def fat_binary(ptx: bytes) -> bytes:
    """Wrap PTX for sm_80 as a fat binary with one entry, as the toolkit's fatbinary does without compression."""
    payload = ptx + b"\0" * (8 - len(ptx) % 8)
    # Kind (1: PTX), version, sizes of this header and of the payload, place of the options, PTX version, target, flags.
    entry = struct.pack("<HHIQIIHHI8xQ16xQQ", 1, 0x101, 80, len(payload), 0, 64, 0, 8, 80, 0x11, 72, 0)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry) + len(payload)) + entry + payload


def register_twins(sizes=(), counts=()) -> None:
    """Let the fake driver run the host twins of ``echo`` and ``many``."""
    fake = fake_driver.load()
    for size in sizes:
        fake.register(f"echo_{size}", lambda params, grid, block, size=size: _copy(params, [size]))
    for n in counts:
        fake.register(f"many_{n}", lambda params, grid, block, n=n: _copy(params, [8] * (n - 1)))


def _copy(params, sizes) -> None:
    if not sizes:
        return
    out = ctypes.c_uint64.from_address(params[0]).value
    for i, size in enumerate(sizes, 1):
        ctypes.memmove(out, params[i], size)
        out += size
