"""The commands of docs/command-line.md run as printed, and say what is printed there."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from tests.command_line import run, succeed_here
from tests.traffic import write_tables

PAGE = Path(__file__).parents[1] / "docs" / "command-line.md"
NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")


def sessions():
    """Commands after the introduction, each with what it prints; pipes are left to the shell."""
    text = PAGE.read_text(encoding="utf-8").partition("## Fit")[2]
    for block in re.findall(r"^```console\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ", block.replace("\\\n", ""), flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            if command.startswith("kcdo ") and "|" not in command:
                yield shlex.split(command)[1:], printed


def masked(text):
    """The words of a text, without its numbers; a report is smaller where it had less time."""
    return NUMBER.sub("#", text).replace("kB", "MB").split()


@pytest.mark.slow
def test_commands_say_what_the_page_says(tmp_path, monkeypatch, capsys):
    write_tables(tmp_path)
    monkeypatch.chdir(tmp_path)
    found = list(sessions())
    assert len(found) > 10
    for arguments, printed in found:
        code = run(arguments)
        out, err = capsys.readouterr()
        notes = [line for line in err.splitlines() if not line.startswith("kcdo  ")]
        assert code == (2 if printed.startswith("Error") else 0), (arguments, err)
        assert masked("\n".join([*notes, out])) == masked(printed), arguments


def test_the_defaults_of_the_page_are_options(tmp_path, monkeypatch, capsys):
    (text,) = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert tomllib.loads(text)["fit"]["periodic"] == ["hour:24"]
    monkeypatch.chdir(tmp_path)
    Path("kcdo.toml").write_text(text)
    write_tables(tmp_path)
    command = ["fit", "traffic.csv", "--selection", "heuristic", "--centres", "20", "-o", "m.kcdo"]
    assert "hour     number, periodic" in succeed_here(*command, capsys=capsys)
    succeed_here("predict", "m.kcdo", "new.csv", "-o", "p.csv", "--quiet")
    assert (
        Path("p.csv").read_text().startswith("day,flow,hour,weather,speed,mean,q05,q95,novelty\n")
    )
