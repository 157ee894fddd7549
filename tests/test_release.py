"""Ready to release: versions agree, paths are safe on every system, licences are named."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import kcdo

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RESERVED = {"con", "prn", "aux", "nul", *(f"{n}{i}" for n in ("com", "lpt") for i in range(10))}


def tracked():
    """Files under version control; skip where this is no checkout."""
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0 or not done.stdout:
        pytest.skip("not a git checkout")
    return [name for name in done.stdout.split("\0") if name]


def test_one_version_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, flags=re.MULTILINE)[1] == kcdo.__version__
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## [{kcdo.__version__}]" in changes
    page = (ROOT / "docs/upgrading.md").read_text(encoding="utf-8")
    assert kcdo.__version__.rpartition(".")[0] in page


def test_paths_are_safe_on_windows():
    names = tracked()
    assert len({name.lower() for name in names}) == len(names)
    for name in names:
        assert len(name) < 120, name
        for part in name.split("/"):
            assert not re.search(r'[<>:"\\|?*]|[. ]$', part), name
            assert part.partition(".")[0].lower() not in RESERVED, name


def test_pythons_are_those_of_the_workflow():
    pythons = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if ":: 3." in line]
    workflow = (ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8")
    listed = re.search(r"python: \[(.*)\]", workflow)[1]
    assert re.findall(r"[\d.]+", listed) == pythons
    assert PROJECT["requires-python"] == f">={pythons[0]}"


def test_every_extra_that_users_install_is_described():
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    inner = {"test", "lint", "docs", "rivals", "ecosystem"}
    for extra in set(PROJECT["optional-dependencies"]) - inner:
        assert f"[{extra}]" in text, extra


def test_every_data_set_has_a_licence():
    text = (ROOT / "docs/datasets.md").read_text(encoding="utf-8")
    _, _, table = text.partition("| licence |")
    rows = [line.split("|") for line in table.splitlines()[2:] if line.startswith("|")]
    assert len(rows) > 10
    assert [row[1] for row in rows if not row[4].strip()] == []


def test_what_the_ecosystem_tests_is_an_extra():
    folders = [path.parent.name for path in ROOT.glob("tests/ecosystem/*/test_*.py")]
    assert set(folders) <= set(PROJECT["optional-dependencies"])
    assert {"arviz", "conformal", "dask", "rail", "serve", "skpro"} <= set(folders)
