"""Examples of the README and the documentation run as printed, and what pages name exists."""

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
    if page.name == "README.md":  # its comments say what the second example prints
        apart, together = namespace["dist"].pdf([-1, 0, 1])
        assert min(apart[[0, 2]]) > 10 * apart[1]
        assert together[1] > 10 * max(together[[0, 2]])


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)\s#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target and "gallery/" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_the_architecture_page_names_files_that_exist():
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.pyi?|\w+/)`", text)
    homes = [ROOT, ROOT / "src/kcdo", ROOT / "src/kcdo/fitting", ROOT / "src/kcdo/metrics"]
    homes += [ROOT / "src/kcdo/components"]
    assert len(named) > 50
    assert [name for name in named if not any((home / name).exists() for home in homes)] == []


@pytest.mark.parametrize("room", ["fitting", "components"])
def test_the_architecture_page_names_every_module_of(room):
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    modules = {path.name for path in (ROOT / "src/kcdo" / room).glob("*.py")} - {"__init__.py"}
    assert sorted(modules - set(re.findall(rf"`{room}/(\w+\.py)`", text))) == []


def test_the_architecture_page_tells_the_stages_of_a_default_fit():
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    fitting = ROOT / "src/kcdo/fitting"
    others = ("chain.py", "folds.py")  # several outputs, and rows that belong together
    files = [path for path in fitting.glob("*.py") if path.name not in others]
    code = "".join(path.read_text(encoding="utf-8") for path in files)
    told = re.findall(r"^\d+\. \*\*([\w ]+)\*\*", text, flags=re.MULTILINE)
    assert sorted(told) == sorted(set(re.findall(r'stage\("([\w ]+)"\)', code)))


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
