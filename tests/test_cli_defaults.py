"""Default options in ``kcdo.toml``, and completion by the shell, through the real executable."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kcdo.commands.models import load_model
from tests.command_line import fail_here, kcdo, succeed, succeed_here

EXECUTABLE = Path(sys.executable).with_name("kcdo")
ROWS = "x;lane;y\n" + "".join(f"{i / 7:.2f};{i % 2};{(i * 7) % 11}\n" for i in range(60))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "data.csv").write_text(ROWS.replace(".", ","))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def defaults(folder, text):
    (folder / "kcdo.toml").write_text(text)


def test_options_of_the_file_are_used_and_those_of_the_command_win(folder):
    defaults(
        folder,
        """
        decimal = ","           # for every command that has it
        [fit]
        target = "y"
        given = ["x", "lane"]
        selection = "heuristic"
        categorical = ["lane"]
        drop-missing = true
        out = "model.kcdo"
        [predict]
        stats = "mean,q50"
        """,
    )
    (folder / "data.csv").write_text((folder / "data.csv").read_text() + ";1;3\n")
    result = kcdo("fit", "data.csv")
    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith("Dropped 1 of 61 rows")
    model = load_model("model.kcdo")
    assert (model.given, list(model.categories)) == (["x", "lane"], ["lane"])
    printed = succeed("predict", "model.kcdo", "data.csv", "--skip-missing")
    assert printed.startswith("x;lane;y;mean;q50\n")
    succeed_here("fit", "data.csv", "--given", "lane", "-o", "other.kcdo")
    assert load_model("other.kcdo").given == ["lane"]


def test_without_a_file_or_elsewhere_there_are_no_defaults(folder, tmp_path, capsys):
    (folder / "below").mkdir()
    defaults(folder / "below", "[fit]\ntarget = 'y'\n")
    fail_here(capsys, [(["fit", "data.csv", "-o", "m.kcdo"], 2, ["Missing option", "--target"])])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[fit", ["kcdo.toml cannot be read"]),
        ("[fitt]\n", ["no command [fitt]", "did you mean fit?"]),
        ("[fit]\ntargt = 'y'", ["targt is no option of [fit]", "did you mean target?"]),
        ("stts = 'mean'", ["stts is no option of any command", "did you mean stats?"]),
        ("[fit]\nseed = -1", ["seed = -1", "--seed"]),
        ("[fit]\nseed = 'many'", ["seed = 'many'"]),
        ("[fit]\nquiet = 'yes'", ["quiet takes true or false", "'yes'"]),
        ("[fit]\ntarget = true", ["target takes a text", "True"]),
        ("[fit]\nforce = true", ["force", "on the command line only"]),
        ("[fit]\ndata = 'data.csv'", ["data is no option of [fit]"]),
    ],
)
def test_what_the_file_gets_wrong_is_one_line(folder, capsys, text, parts):
    defaults(folder, text)
    fail_here(capsys, [(["fit", "data.csv", "-o", "m.kcdo"], 2, ["kcdo.toml", *parts])])


def test_help_is_there_whatever_the_file_says(folder):
    defaults(folder, "nonsense")
    assert "--target" in succeed("fit", "--help")


def complete(*words):
    environment = os.environ | {
        "_KCDO_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    found = subprocess.run([EXECUTABLE], capture_output=True, text=True, env=environment)
    assert found.returncode == 0, found.stderr
    return found.stdout.split()


def test_the_shell_completes_commands_and_options():
    assert complete("kcdo", "pre") == ["predict"]
    assert "--drop-missing" in complete("kcdo", "fit", "--d")


def test_the_facts_of_a_fit_in_json_are_those_of_the_defaults(folder, capsys):
    defaults(folder, "[fit]\ntarget = 'y'\nselection = 'heuristic'\ndecimal = ','\njson = true\n")
    facts = json.loads(succeed_here("fit", "data.csv", "-o", "m.kcdo", capsys=capsys))
    assert facts["report"]["selection"] == "heuristic"
