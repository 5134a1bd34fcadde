"""What was compiled with an older header works; what wants more says so; fields are only added at the end."""

import ctypes
import re

import pytest
from capi.clients import OLDER, check_syntax, compile_client, import_from
from capi_table import HEADER, functions, version, without_comments

import madspace
from madspace.capi import get_pkgconfig_dir
from madspace.capi._table import api_version

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def changed(folder, *changes):
    """Write the header with changes to a folder, which is returned."""
    text = HEADER.read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after, 1)
    (folder / "madspace").mkdir(parents=True)
    (folder / "madspace" / "madspace.h").write_text(text)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder of clients: of an older, the present, a newer minor and a newer major version."""
    folder = tmp_path_factory.mktemp("clients")
    major, minor = api_version
    newer_minor = changed(
        folder / "minor",
        (f"#define MADSPACE_API_MINOR {minor}", f"#define MADSPACE_API_MINOR {minor + 1}"),
        ("} ms_api;", "    int (*something_new)(void);\n} ms_api;"),
    )
    newer_major = changed(folder / "major", (f"#define MADSPACE_API_MAJOR {major}", "#define MADSPACE_API_MAJOR 2"))
    for name, include in (
        ("client_older", OLDER),
        ("client_present", HEADER.parent.parent),
        ("client_newer_minor", newer_minor),
        ("client_newer_major", newer_major),
    ):
        compile_client(name, folder, include)
    return folder


def test_a_client_of_an_older_minor_works(folder, api):
    client = import_from("client_older", folder)
    major, minor, code, size, name = client.status()
    assert (major, minor, code, name) == (1, 0, 0, "MS_ERROR_ARGUMENT")
    assert minor < api_version[1]
    assert size < api.size.value


def test_a_client_of_this_version_works(folder, api):
    client = import_from("client_present", folder)
    major, minor, code, size, _ = client.status()
    assert ((major, minor), code, size) == (api_version, 0, api.size.value)
    assert client.not_imported() == api.MS_ERROR_NOT_IMPORTED


def test_a_client_of_a_newer_minor_is_told(folder):
    major, minor = api_version
    told = rf"needs madspace's C API {major}\.{minor + 1} or later, .* has {major}\.{minor} .*upgrade madspace-driver"
    with pytest.raises(ImportError, match=told):
        import_from("client_newer_minor", folder)


def test_a_client_of_a_newer_major_is_told(folder):
    with pytest.raises(
        ImportError, match="version 2 of madspace's C API, which the installed madspace-driver does not"
    ):
        import_from("client_newer_major", folder)


def table_like(api, **changes):
    """Return a copy of the beginning of the table, with other numbers."""
    fields = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("size", ctypes.c_size_t),
        ("previous", ctypes.c_void_p),
    ]
    kind = type("Head", (ctypes.Structure,), {"_fields_": [*fields, ("rest", ctypes.c_char * (api.size.value - 24))]})
    copy = kind.from_buffer_copy(ctypes.string_at(api.address, api.size.value))
    for name, value in changes.items():
        setattr(copy, name, value)
    return copy


def test_a_table_of_a_newer_major_leads_to_the_older_one(folder, api, monkeypatch):
    newest = table_like(api, major=2, previous=api.address)
    monkeypatch.setattr(madspace, "_C_API", new_capsule(ctypes.addressof(newest), b"madspace._C_API", None))
    assert import_from("client_present", folder).status()[2] == 0
    newest.previous = None
    with pytest.raises(ImportError, match="version 1 of madspace's C API"):
        import_from("client_present", folder)


def test_a_table_that_is_too_short_is_refused(folder, api, monkeypatch):
    short = table_like(api, size=api.size.value - 8)
    monkeypatch.setattr(madspace, "_C_API", new_capsule(ctypes.addressof(short), b"madspace._C_API", None))
    with pytest.raises(ImportError, match=rf"{api.size.value - 8} bytes, where {api.size.value} are needed"):
        import_from("client_present", folder)
    older = import_from("client_older", folder)  # which knows of fewer functions
    assert older.status()[2] == 0
    longer = table_like(api, minor=99, size=api.size.value + 800)
    monkeypatch.setattr(madspace, "_C_API", new_capsule(ctypes.addressof(longer), b"madspace._C_API", None))
    assert import_from("client_present", folder).status()[2] == 0


@pytest.mark.parametrize("there", ["nothing", "another capsule", "another thing"])
def test_another_module_of_that_name(folder, api, monkeypatch, there):
    if there == "nothing":
        monkeypatch.delattr(madspace, "_C_API")
    else:
        other = new_capsule(api.address, b"other", None) if there == "another capsule" else 3
        monkeypatch.setattr(madspace, "_C_API", other)
    with pytest.raises(ImportError, match="needs the package madspace-driver"):
        import_from("client_present", folder)


@pytest.mark.parametrize(
    "options",
    [("-xc", "-std=c99", "-pedantic"), ("-xc", "-std=c11"), ("-xc++", "-std=c++11"), ("-xc++", "-std=c++20")],
    ids=" ".join,
)
@pytest.mark.parametrize(
    "define", ["", "-DMADSPACE_SYMBOL=my_table", "-DMADSPACE_SYMBOL=my_table -DMADSPACE_NO_IMPORT"]
)
def test_the_header_stands_alone(tmp_path, options, define):
    file = tmp_path / "file"
    file.write_text("#include <madspace/madspace.h>\nint f(int* n) { return ms_device_count(n); }\n")
    check_syntax(file, *options, *define.split())


def test_fields_are_only_added():
    older, present = (functions(path.read_text()) for path in (OLDER / "madspace" / "madspace.h", HEADER))
    assert present[: len(older)] == older


def test_the_older_structures_are_as_they_were():
    def structures(path):
        return dict(re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", path.read_text(), re.S))

    older, present = structures(OLDER / "madspace" / "madspace.h"), structures(HEADER)
    for name in older.keys() - {"ms_api"}:
        assert present[name].startswith(older[name].rstrip()), name


def test_versions_agree():
    text = HEADER.read_text()
    assert version(text) == api_version
    pkgconfig = (HEADER.parents[2] / "share" / "pkgconfig" / "madspace.pc").read_text()
    assert "Version: {}.{}\n".format(*api_version) in pkgconfig
    assert get_pkgconfig_dir().endswith("share/pkgconfig")


def test_functions_have_their_wrappers_and_declarations(api):
    text, declarations = without_comments(HEADER.read_text()), (HEADER.parents[2] / "capi" / "__init__.pxd").read_text()
    for name, _, _ in functions(text):
        assert len(re.findall(rf"\bms_{name}\([^;]*?\) \{{", text)) == 1, name
        assert re.search(rf"MADSPACE_TABLE->{name}\(", text), name
        assert f"(*{name})(" in declarations, name
        assert f" ms_{name}(" in declarations, name
        assert ctypes.cast(api.raw[name], ctypes.c_void_p).value, name


def test_statuses_are_stable(api):
    older = dict(re.findall(r"\b(MS_\w+) = (\d+)", (OLDER / "madspace" / "madspace.h").read_text()))
    for name, value in older.items():
        assert getattr(api, name) == int(value)
        if name.startswith(("MS_ERROR_", "MS_OK")):
            assert api.status_name(int(value)).decode() == name
    assert api.status_name(12345)
