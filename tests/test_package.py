"""The public names: written once in __init__.pyi, loaded when first used."""

import ast
import re
import runpy
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

import kcdo

ROOT = Path(__file__).parents[1]
STUB = ROOT / "src/kcdo/__init__.pyi"


def stub_names():
    """What type checkers read in the stub, as {name: module}."""
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert len(imports) == len(tree.body)
    names = [(alias, node.module) for node in imports for alias in node.names]
    assert all(alias.asname == alias.name for alias, _ in names)  # otherwise not exported
    found = {alias.name: module for alias, module in names}
    assert len(found) == len(names)
    return found


def run(code, *, path=ROOT / "src"):
    command = [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {str(path)!r})\n{code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_every_name_is_what_its_module_calls_so():
    names = stub_names()
    assert len(names) > 60
    for name, module in names.items():
        assert getattr(kcdo, name) is getattr(import_module(module), name)


def test_names_are_listed_and_imported_by_a_star():
    names = sorted(stub_names())
    assert dir(kcdo) == kcdo.__all__ == names
    space = {}
    exec("from kcdo import *", space)
    assert set(names) <= set(space)


def test_modules_of_names_are_attributes():
    assert run("import kcdo; print(kcdo.errors.__name__)") == ["kcdo.errors"]
    assert kcdo.__getattr__("metrics") is import_module("kcdo.metrics")


def test_other_names_are_no_attributes():
    for name in ("Gausian", "validation", "_anything"):
        with pytest.raises(AttributeError, match=f"module 'kcdo' has no attribute '{name}'"):
            kcdo.__getattr__(name)
    with pytest.raises(ImportError, match="cannot import name 'Gausian'"):
        exec("from kcdo import Gausian")


def test_nothing_is_loaded_before_it_is_used():
    loaded = "print(*(name for name in sys.modules if name.partition('.')[0] in sys.argv[1:]))"
    code = f"import kcdo; sys.argv[1:] = ['kcdo', 'numpy', 'typing', 're', 'ast']; {loaded}"
    assert set(run(code)) == {"kcdo", "kcdo._version"}
    code = f"import kcdo; kcdo.KcdoError; sys.argv[1:] = ['kcdo', 'numpy']; {loaded}"
    assert set(run(code)) == {"kcdo", "kcdo._version", "kcdo.errors"}


def test_an_old_name_warns_and_gives_the_new_one(monkeypatch):
    monkeypatch.setitem(kcdo._RENAMED, "Gauss", "Gaussian")
    with pytest.warns(DeprecationWarning, match=r"kcdo\.Gauss is now called kcdo\.Gaussian") as one:
        assert kcdo.Gauss is kcdo.Gaussian
    assert one[0].filename == __file__
    assert "Gauss" not in dir(kcdo)


def test_the_wheel_has_the_names_and_is_read_from_a_zip_file(tmp_path, monkeypatch):
    monkeypatch.setenv("KCDO_REPOSITORY", "https://forge.example/kcdo/")
    wheel = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"]))
    inside = zipfile.ZipFile(wheel).namelist()
    assert {"kcdo/__init__.py", "kcdo/__init__.pyi", "kcdo/py.typed"} <= set(inside)
    code = "import kcdo; print(kcdo.KcdoError.__module__, kcdo.__file__)"
    module, place = run(code, path=wheel)
    assert module == "kcdo.errors"
    assert wheel in place
    # the page of a package index has no files beside it
    about = zipfile.ZipFile(wheel).read(f"kcdo-{kcdo.__version__}.dist-info/METADATA").decode()
    links = re.findall(r"\]\(([^)\s]+)\)", about)
    assert len(links) > 8
    assert [link for link in links if not link.startswith("https://")] == []
    picture = (
        f"![A report](https://forge.example/kcdo/raw/v{kcdo.__version__}/docs/images/report.png)"
    )
    assert picture in re.sub(r"(!\[A report)[^\]]*", r"\1", about)


def test_the_page_of_a_package_index_needs_an_address():
    page = runpy.run_path(str(ROOT / ".ci/package_page.py"))
    found = page["repository"]
    assert found({}) is None
    assert (
        found({"GITHUB_SERVER_URL": "https://a.b", "GITHUB_REPOSITORY": "c/d"}) == "https://a.b/c/d"
    )
    text = "[one](docs/a.md), ![two](b.png), [three](https://c.d), [four](#e), [five](mailto:f@g.h)"
    assert page["package_page"](text, "https://a.b/c", "v1") == (
        "[one](https://a.b/c/blob/v1/docs/a.md), ![two](https://a.b/c/raw/v1/b.png), "
        "[three](https://c.d), [four](#e), [five](mailto:f@g.h)"
    )
