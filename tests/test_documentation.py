"""The Python examples of the README and the documentation pages run as printed."""

import re
import runpy
from importlib import import_module
from pathlib import Path

import pytest

import kcdo

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])
SCRIPTS = sorted(ROOT.glob("examples/plot_*.py"))
EXAMPLE = re.compile(r"^```python\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # examples may write files
    # One namespace per page: later examples build on earlier ones.
    namespace: dict[str, object] = {}
    for example in EXAMPLE.findall(page.read_text(encoding="utf-8")):
        exec(compile(example, page.name, "exec"), namespace)


def test_the_readme_has_an_example():
    assert EXAMPLE.search((ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_gallery_scripts_draw(script):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    try:
        runpy.run_path(str(script))
        assert plt.get_fignums()
    finally:
        plt.close("all")


def _reference():
    """Names listed in docs/api.rst, as pairs (module, name)."""
    module, names = "", []
    for line in (ROOT / "docs/api.rst").read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif match := re.fullmatch(r"   (\w+)", line):
            names.append((module, match[1]))
    return names


def test_the_reference_lists_every_public_name():
    listed = {name for _, name in _reference()}
    public = {*kcdo.__all__, *kcdo.metrics.__all__} - {"__version__", "metrics"}
    assert not public - listed


def test_the_reference_lists_only_what_exists():
    assert not [pair for pair in _reference() if not hasattr(import_module(pair[0]), pair[1])]
