"""The command line, through real processes: what it prints, imports, writes and returns."""

import subprocess
import sys
from pathlib import Path

import pytest

from kcdo._version import __version__

EXECUTABLE = Path(sys.executable).with_name("kcdo")
HEAVY = ("numpy", "scipy", "sklearn", "matplotlib", "pandas", "polars")

# Each makes one import fail in the way a missing package does, then runs the command line.
WITHOUT_PACKAGE = """
import sys
sys.modules[{package!r}] = None
from kcdo.cli import main
sys.argv = ["kcdo", *{arguments!r}]
main()
"""


def run(*command, **options):
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=120, **options
    )


def run_python(code):
    return run(sys.executable, "-c", code)


@pytest.mark.parametrize("command", [[EXECUTABLE], [sys.executable, "-m", "kcdo"]])
def test_version(command):
    result = run(*command, "--version")
    assert result.returncode == 0
    assert result.stdout == f"kcdo {__version__}\n"


def test_help_names_the_commands_and_imports_nothing_heavy():
    result = run(sys.executable, "-X", "importtime", "-m", "kcdo", "--help")
    assert result.returncode == 0
    assert "demo" in result.stdout
    imported = {
        line.rpartition("|")[2].strip().partition(".")[0] for line in result.stderr.splitlines()
    }
    assert "typer" in imported
    assert imported.isdisjoint(HEAVY)


def test_importing_the_package_imports_nothing_heavy():
    result = run_python("import sys, kcdo; print(*sys.modules)")
    assert result.returncode == 0, result.stderr
    assert set(result.stdout.split()).isdisjoint(HEAVY)


def test_without_typer_one_line_says_what_to_install():
    result = run_python(WITHOUT_PACKAGE.format(package="typer", arguments=["--version"]))
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == 'The command line needs an extra: pip install "kcdo[cli]"\n'


def test_an_import_error_that_is_not_about_typer_is_not_hidden():
    result = run_python(WITHOUT_PACKAGE.format(package="kcdo._version", arguments=["--version"]))
    assert result.returncode == 1
    assert "kcdo._version" in result.stderr


def test_demo_without_matplotlib_says_what_to_install():
    result = run_python(WITHOUT_PACKAGE.format(package="matplotlib.figure", arguments=["demo"]))
    assert result.returncode == 2
    assert result.stderr == 'Figures need an extra: pip install "kcdo[plots]"\n'


def test_demo_refuses_a_negative_seed(tmp_path):
    result = run(EXECUTABLE, "demo", "--seed", "-1", "--out", tmp_path / "out")
    assert result.returncode == 2
    assert "--seed" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_demo_writes_the_figure_and_reports_the_errors(tmp_path):
    result = run(EXECUTABLE, "demo", "--out", tmp_path / "new" / "folder", "--seed", "1")
    assert result.returncode == 0, result.stderr
    figure = tmp_path / "new" / "folder" / "donut.png"
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert str(figure) in result.stdout
    assert "2500 points" in result.stdout
    errors = row_of_numbers(result.stdout, "L1 error of the estimate")
    yardstick = row_of_numbers(result.stdout, "L1 error of the zero function")
    assert yardstick == [0.0625, 0.0625]
    assert max(errors) < 0.5 * 0.0625


def row_of_numbers(text, label):
    """Numbers in the line of the table that starts with the label."""
    (line,) = (line for line in text.splitlines() if label in line)
    cells = line.partition(label)[2].replace("│", " ").replace("|", " ").split()
    return [float(cell) for cell in cells]
