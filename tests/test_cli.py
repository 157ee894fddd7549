"""The command line as a whole: help, usage, what it imports, what is missing."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kcdo import ConditionalDensityOperator
from kcdo._version import __version__
from tests.command_line import fail_together, kcdo, succeed, succeed_here

EXECUTABLE = Path(sys.executable).with_name("kcdo")
HEAVY = ("numpy", "scipy", "sklearn", "matplotlib", "pandas", "polars", "pyarrow")
COMMANDS = ("fit", "predict", "density", "sample", "evaluate", "compare", "plot", "report", "info")
COMMANDS += ("serve", "demo")

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
    for command in COMMANDS:
        assert f" {command} " in result.stdout
    assert "Exit codes" in result.stdout
    assert "typer" in imported_by(result)
    assert imported_by(result).isdisjoint(HEAVY)


def imported_by(result):
    """Packages that Python said it imported."""
    lines = result.stderr.splitlines()
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


def test_the_facts_of_a_model_need_nothing_that_the_model_is_made_of(tmp_path):
    x = np.linspace(0.0, 1.0, 20)
    model = ConditionalDensityOperator(selection="heuristic").fit(x[:, None], x)
    model.save(tmp_path / "m.kcdo")
    info = [sys.executable, "-X", "importtime", "-m", "kcdo", "info", tmp_path / "m.kcdo"]
    result = run(*info)
    assert result.returncode == 0
    assert "number" in result.stdout
    assert imported_by(result).isdisjoint(HEAVY[1:])  # but for numpy


def test_help_of_a_command_shows_examples(capsys):
    for command in COMMANDS:
        text = succeed_here(command, "--help", capsys=capsys)
        assert f"kcdo {command}" in text.partition("Examples")[2]
        for option in ("--quiet", "--debug"):
            assert option in text


def test_without_arguments_there_is_help():
    assert "kcdo fit data.csv --target speed" in succeed()


def test_misuse_is_one_line():
    fail_together(
        [
            (["fitt"], 2, ["fitt", "Did you mean 'fit'?", "kcdo --help"]),
            (["fit"], 2, ["Missing argument", "kcdo fit --help"]),
            (["info", "--colour"], 2, ["--colour", "kcdo info --help"]),
            (["demo", "--seed", "-1"], 2, ["--seed"]),
        ]
    )


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


@pytest.mark.parametrize(
    ("package", "extra", "arguments"),
    [
        ("matplotlib.figure", "plots", ["demo"]),
        ("pandas", "cli", ["fit", __file__, "--target", "y", "-o", "m.kcdo"]),
    ],
)
def test_without_an_extra_one_line_says_what_to_install(package, extra, arguments):
    result = run_python(WITHOUT_PACKAGE.format(package=package, arguments=arguments))
    assert result.returncode == 2
    assert result.stderr.startswith("Error: ")
    assert result.stderr.endswith(f' an extra: pip install "kcdo[{extra}]"\n')


def test_debug_shows_the_traceback_and_the_line(tmp_path):
    result = kcdo("info", tmp_path / "none.kcdo", "--debug")
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("Error: there is no model file")


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


def test_what_the_demo_proposes_works(tmp_path, monkeypatch, short_searches):
    """Its next steps, on a table of one's own."""
    from kcdo.demo import _NEXT_STEPS

    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, 40)
    table = pd.DataFrame({"x": x, "y": x + 0.1 * rng.normal(size=40)})
    monkeypatch.chdir(tmp_path)
    table.to_csv("data.csv", index=False)
    commands, _, code = _NEXT_STEPS.partition("\n\nor in Python")
    for line in commands.splitlines():
        succeed_here(*line.split()[1:], "--quiet")
    assert Path("report.html").exists()
    exec(code.partition("\n\n")[2], {})
