"""No command loses a file: not one that it reads, nor one of another kind; - is no file."""

import os
import subprocess
import sys

import pytest

from kcdo.commands.kinds import Kind, kind_of_bytes, kind_of_file
from kcdo.commands.models import load_model
from tests.command_line import KCDO, fail_here, fail_together, kcdo, succeed, succeed_here

ROWS = "x,y\n" + "".join(f"{i / 10},{(i * 7) % 11}\n" for i in range(40))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a table, a model, and other files of each kind."""
    path = tmp_path_factory.mktemp("made")
    (path / "data.csv").write_text(ROWS)
    command = ["fit", path / "data.csv", "--target", "y", "--selection", "heuristic", "--quiet"]
    succeed_here(*command, "-o", path / "model.kcdo")
    return path


@pytest.fixture
def folder(made, tmp_path):
    for name in ("data.csv", "model.kcdo"):
        (tmp_path / name).write_bytes((made / name).read_bytes())
    return tmp_path


def fit(folder, out, *more):
    return [
        "fit",
        folder / "data.csv",
        "--target",
        "y",
        "--selection",
        "heuristic",
        "-o",
        out,
        *more,
    ]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_is_read_is_never_written_over(folder, capsys):
    data, model = folder / "data.csv", folder / "model.kcdo"
    (folder / "link.csv").symlink_to(data)
    os.link(data, folder / "hard.csv")
    os.link(model, folder / "hard.csv.gz")
    os.link(data, folder / "data.html")
    os.link(data, folder / "data.png")
    before = contents(folder)
    roundabout = f"{folder}/../{folder.name}/data.csv"
    of_data = ["is the data that the command reads", "another name"]
    fail_together([(fit(folder, data, "--force"), 2, [f"-o {data}", *of_data])])
    predict = ["predict", model, data, "--force", "-o"]
    looks = ["--data", data, "--force", "-o"]
    fail_here(
        capsys,
        [
            *(
                (fit(folder, out, "--force"), 2, of_data)
                for out in (roundabout, folder / "link.csv")
            ),
            (fit(folder, folder / "hard.csv", "--force"), 2, of_data),
            ([*predict, data], 2, of_data),
            ([*predict, folder / "hard.csv.gz"], 2, ["is the model that the command reads"]),
            (["report", model, *looks, folder / "data.html"], 2, of_data),
            (["plot", model, *looks, folder / "data.png"], 2, of_data),
            (["evaluate", model, data, "--force", "-o", folder / "data.png"], 2, of_data),
            (
                ["sample", model, "--at", "x=1", "-o", folder / "hard.csv.gz"],
                2,
                ["is the model that"],
            ),
        ],
    )
    assert contents(folder) == before


def test_standard_output_that_is_the_data_is_refused(folder):
    with (folder / "data.csv").open("a") as file:
        result = kcdo("predict", folder / "model.kcdo", folder / "data.csv", stdout=file)
    assert result.returncode == 2
    assert "standard output is the data" in result.stderr
    assert (folder / "data.csv").read_text() == ROWS


def test_a_file_of_another_kind_is_written_over_by_force_only(folder, capsys):
    data, model = folder / "data.csv", folder / "model.kcdo"
    other = folder / "other.csv"
    other.write_text("a,b\n1,2\n")
    saved, page = folder / "saved.kcdo", folder / "page.html"
    saved.write_bytes(model.read_bytes())
    page.write_text("# notes\n")
    (folder / "empty.kcdo").touch()
    before = contents(folder)
    report = ["report", model, "--data", data, "-o", page]
    cases = [
        (fit(folder, other), 2, ["other.csv", "holds text, not a model", "--force"]),
        (report, 2, ["holds text, not an HTML page", "--force"]),
        (["predict", model, data, "-o", saved.rename(folder / "p.csv")], 2, ["holds a model, not"]),
    ]
    fail_here(capsys, cases)
    (folder / "p.csv").rename(saved)
    assert contents(folder) == before
    succeed_here(*report, "--force")
    assert kind_of_file(page) is Kind.PAGE
    succeed_here(*report)  # a page by a page
    succeed_here(*fit(folder, saved))  # a model by a model
    succeed_here(*fit(folder, folder / "empty.kcdo"))
    succeed_here("predict", model, data, "-o", other)  # a table by a table
    assert other.read_text().startswith("x,y,mean")
    succeed_here(*fit(folder, other, "--force"))
    assert kind_of_file(other) is Kind.MODEL


def test_a_dash_is_standard_input_and_output(folder, capsys):
    model = folder / "model.kcdo"
    before = contents(folder)
    written = succeed("predict", model, folder / "data.csv", "-o", "-", cwd=folder)
    assert written.startswith("x,y,mean")
    density = ["density", model, "--at", "x=1", "--grid", 3]
    assert succeed_here(*density, "-o", "-", capsys=capsys).startswith("y,density\n")
    binary = {"capture_output": True, "cwd": folder, "check": True}
    command = [*KCDO, *map(str, fit(folder, "-"))]
    found = subprocess.run(command, **binary)
    assert found.stderr.decode().startswith("Fitted y given x")
    assert kind_of_bytes(found.stdout) is Kind.MODEL
    piped = subprocess.run([*KCDO, "info", "-", "--json"], input=found.stdout, **binary)
    assert b'"target": ["y"]' in piped.stdout
    picture = [*KCDO, "plot", model, "--data", folder / "data.csv", "-o", "-"]
    assert subprocess.run(picture, **binary).stdout.startswith(b"\x89PNG")
    assert contents(folder) == before  # and there is no file named "-"
    fail_here(
        capsys,
        [
            (fit(folder, "-", "--json"), 2, ["--json", "give -o a name"]),
            (["predict", "-", "-"], 2, ["- is standard input", "one file only"]),
        ],
    )
    succeed(*fit(folder, "./-"), cwd=folder)  # this way there is one
    assert load_model(folder / "-").targets == ["y"]


def test_a_damaged_model_in_standard_input_is_named_as_it_was_given(folder):
    result = kcdo("info", "-", stdin=subprocess.DEVNULL)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "Error: cannot load '-': it is not a kcdo model file.\n"


@pytest.mark.skipif(sys.platform == "win32", reason="terminals of Unix")
def test_a_model_is_not_printed_on_a_terminal(folder):
    terminal, end = os.openpty()
    result = kcdo(*fit(folder, "-"), stdout=end)
    os.close(end)
    os.close(terminal)
    assert result.returncode == 2
    assert result.stderr.startswith("Error: a model is nothing to show on a terminal")


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"", Kind.EMPTY),
        (b"PK\x03\x04" + 26 * b"\0" + b"word/document.xml", Kind.ZIP),
        (b"PAR1\x15", Kind.PARQUET),
        (b"a,b\0\n", Kind.BINARY),
        (b"\xff\xfea\0,\0b\0", Kind.TEXT),
        (b"\xff\xfe\xff", Kind.TEXT),  # cut inside a character
        ("\ufeff[1, 2]".encode(), Kind.JSON),
        (b"h\xf6ur,speed\n", Kind.BINARY),
        (b'<?xml version="1.0"?><svg>', Kind.PICTURE),
    ],
)
def test_kinds_of_files(start, kind):
    assert kind_of_bytes(start) is kind
