"""Build the wheel and the source archive, look into them, and try them in empty environments.

    python .ci/release.py             # newest and lowest versions of the dependencies
    python .ci/release.py --only lowest

The lowest versions are the bounds that pyproject.toml states. The interpreter that runs this one
makes the environments: for the lowest versions take the oldest Python that is supported, 3.11.
"""

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from email import message_from_string
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def main() -> None:
    """Build and try; an error says what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["newest", "lowest"], help="one kind of environment")
    only = parser.parse_args().only
    with tempfile.TemporaryDirectory() as folder:
        wheel, archive = build(Path(folder))
        check_wheel(wheel)
        check_archive(archive)
        for kind in [only] if only else ["newest", "lowest"]:
            try_out(Path(folder) / kind, kind, wheel)
        if not only:
            try_out(Path(folder) / "archive", "newest", archive)


def build(folder: Path) -> tuple[Path, Path]:
    """Return a wheel and a source archive, built and checked for a package index."""
    for old in DIST.glob("kcdo-*"):
        old.unlink()
    python = environment(folder / "build")
    run(python, "-m", "pip", "install", "--quiet", "build", "twine")
    run(python, "-m", "build", "--outdir", str(DIST), str(ROOT))
    files = sorted(DIST.glob("kcdo-*"))
    run(python, "-m", "twine", "check", "--strict", *map(str, files))
    return next(DIST.glob("*.whl")), next(DIST.glob("*.tar.gz"))


def check_wheel(path: Path) -> None:
    """Need every module and data file of src/kcdo in the wheel, and nothing else."""
    source = ROOT / "src"
    wanted = {
        str(file.relative_to(source).as_posix())
        for file in (source / "kcdo").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    with zipfile.ZipFile(path) as wheel:
        inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
        about = next(name for name in wheel.namelist() if name.endswith("/METADATA"))
        metadata = message_from_string(wheel.read(about).decode())
    assert inside == wanted, inside ^ wanted
    assert {"kcdo/py.typed", "kcdo/__init__.pyi"} <= inside
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Description-Content-Type"] == "text/markdown"


def check_archive(path: Path) -> None:
    """Need sources, tests, documentation and licence in the source archive, and no data."""
    with tarfile.open(path) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    for wanted in ("src/kcdo/__init__.py", "tests/conftest.py", "docs/guide.md", "LICENSE"):
        assert wanted in names, wanted
    assert not [name for name in names if "_build/" in name or "__pycache__" in name]


def try_out(folder: Path, kind: str, package: Path) -> None:
    """Install into an empty environment, and run the smoke test outside of the checkout."""
    python = environment(folder)
    bounds = [re.sub(r">=\s*([\d.]+).*", r"==\1.*", line) for line in PROJECT["dependencies"]]
    run(python, "-m", "pip", "install", "--quiet", str(package), *bounds * (kind == "lowest"))
    run(python, "-I", str(ROOT / ".ci/smoke.py"), cwd=folder)


def environment(folder: Path) -> str:
    """Return the interpreter of a new virtual environment."""
    venv.create(folder, with_pip=True)
    return str(folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))


def run(*command: str, cwd: Path | None = None) -> None:
    """Run a command that must succeed."""
    subprocess.run(command, check=True, cwd=cwd)


if __name__ == "__main__":
    main()
