"""Odd tables of text get the right numbers, or an error that says what is odd and where."""

import warnings

import numpy as np
import pandas as pd
import pytest

from kcdo.commands.models import load_model
from kcdo.commands.naming import names
from kcdo.commands.sources import Source
from kcdo.errors import InvalidInputError, KcdoWarning
from tests.command_line import fail_here, fail_together, kcdo, succeed_here

N = 50


def table(**changed):
    """Rows x, kind, y as texts; ``changed`` are columns that replace or follow them."""
    columns = {
        "x": [f"{i / 5}" for i in range(N)],
        "kind": ["ab"[i % 2] for i in range(N)],
        "y": [f"{(i * 7) % 11}" for i in range(N)],
    }
    return columns | changed


def text_of(columns):
    lines = [",".join(columns), *map(",".join, zip(*columns.values(), strict=True))]
    return "\n".join(lines) + "\n"


def with_cell(name, row, value):
    column = table()[name]
    column[row - 1] = value
    return text_of(table(**{name: column}))


def fit(path, *more, out="m.kcdo"):
    start = ["fit", path, "--target", "y", "--selection", "heuristic"]
    return [*start, "-o", path.parent / out, *more]


def rows_of(path):
    with Source.of([str(path)]).open() as open_table:
        return sum(len(chunk) for chunk in open_table.chunks(100))


@pytest.fixture
def write(tmp_path):
    def written(text, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


def test_a_long_cell_is_just_a_long_cell(write, capsys):
    long = '"' + 200_000 * "x" + '"'
    data = write(text_of(table(note=[long, *["-"] * (N - 1)])))
    told = succeed_here(*fit(data, "--given", "x"), capsys=capsys)
    assert "to 50 rows" in told


def test_a_long_number_is_refused_at_once_and_shown_in_part(write, capsys):
    digits = 200_000 * "9"
    data = write(text_of(table(y=[digits, *["1"] * (N - 1)])))
    fail_here(capsys, [(fit(data), 1, ["has a text among its numbers: '999", "9…' in row 1"])])


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('n,s\n1,"open\n2,b\n3,c\n', "row 1"),  # to the end of the file
        ('n,s\n1,a\n2,"open\n3,c\n4,"d"\n5,e\n', "row 2"),  # to the next quote, which opens
        ('n,"s\n1,a\n2,b\n', "the header"),
        ('n,s\n1,a\n2,"', "row 2"),
    ],
)
def test_a_quote_that_is_not_closed_is_found(write, text, where):
    with pytest.raises(InvalidInputError, match=f"quote that opens a field in {where}"):
        rows_of(write(text))


def test_a_quote_that_is_not_closed_fails_the_command(write):
    data = write(with_cell("kind", 12, '"a'))
    fail_together([(fit(data), 1, ["data.csv: a quote", "row 12", "close it"])])


def test_an_endless_quote_is_not_read_to_the_end(write):
    lines = write('n,s\n1,"open\n' + "2,b\n" * 20_000 + '3,"\n')
    with pytest.raises(InvalidInputError, match="row 1"):
        rows_of(lines)


def test_lines_in_quotes_that_look_like_rows_are_mentioned(write):
    with pytest.warns(KcdoWarning, match="row 2 of .* has a quoted field of 4 lines"):
        assert rows_of(write('n,s\n1,a\n2,"open\n3,c\n4,d\n5,e"\n6,f\n')) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rows_of(write('n,s\n1,"a letter\nof some\nlines"\n2,"b" \n3,5" pipe\n')) == 3


def test_dates_are_named_and_not_made_categories(write, capsys):
    days = [str(day.date()) for day in pd.date_range("2024-01-01", periods=N)]
    clock = [f"{i % 24}:{i % 60:02d}" for i in range(N)]
    dated = write(text_of(table(day=days)))
    timed = write(text_of(table(at=clock)), "timed.csv")
    advice = ["make numbers of them", "--given", "--categorical"]
    fail_here(
        capsys,
        [
            (fit(dated), 1, ["'day' holds dates or times, such as '2024-01-01' in row 1", *advice]),
            (fit(timed), 1, ["'at' holds dates or times, such as '0:00'", *advice]),
        ],
    )
    succeed_here(*fit(dated, "--given", "x,kind"))
    succeed_here(*fit(dated, "--categorical", "day"))


@pytest.mark.parametrize("day", ["31.01.2024", "1/31/24", "2024-01-31T08:00Z", "8:30 pm"])
def test_other_writings_of_dates(write, capsys, day):
    fail_here(capsys, [(fit(write(text_of(table(day=[day] * N)))), 1, [f"such as '{day}'"])])


def test_numbers_in_another_style_are_not_made_categories(write, capsys):
    commas = [f'"{x.replace(".", ",")}"' for x in table()["x"]]
    data = write(text_of(table(x=commas)))
    fail_here(capsys, [(fit(data), 1, ["'x'", "'0,0' in row 1", "--decimal ,"])])
    succeed_here(*fit(data, "--decimal", ",", "--quiet"))


def test_nul_characters_are_refused(write, capsys):
    header = write(text_of(table()).replace("kind", "ki\0nd"))
    row = write(with_cell("kind", 40, "a\0"), "row.csv")
    wide = write(text_of(table()).encode("utf-16-le"), "wide.csv")
    parts = ["NUL characters", "UTF-16 with a byte order mark"]
    fail_here(capsys, [(fit(path), 1, parts) for path in (header, row, wide)])


def test_every_spelling_of_nothing_and_of_infinity(write, capsys):
    missing = ("NaN", "-NaN", "NAN", "-nan", "none", "Null")
    infinite = ("inf", "-Infinity", "1e999", "-1e999")
    cases = [
        (
            fit(write(with_cell("x", 7, value), f"{value}.csv")),
            1,
            ["column 'x' (1)", "--drop-missing"],
        )
        for value in missing
    ]
    cases += [
        (
            fit(write(with_cell(column, 7, value), f"{column}{value}.csv")),
            1,
            [f"'{column}' has 1 infinite value, the first '{value}' in row 7 of"],
        )
        for value in infinite
        for column in ("x", "y")
    ]
    fail_here(capsys, cases)


def test_names_with_commas_and_equals_signs(write, tmp_path, capsys):
    columns = {'"a,b"': table()["x"], "c=d": table()["x"][::-1], "kind": table()["kind"]}
    data = write(text_of(columns | {"y": table()["y"]}))
    red = data.read_text().replace(",a,", ',"red, green",')
    data.write_text(red)
    succeed_here(*fit(data, "--given", '"a,b",c=d,kind', "--quiet"))
    model = tmp_path / "m.kcdo"
    assert load_model(model).given == ["a,b", "c=d", "kind"]
    density = ["density", model, "--grid", 3, "--at"]
    printed = succeed_here(*density, "a,b=1,c=d=2,kind=b", capsys=capsys)
    assert printed.startswith("y,density\n")
    assert succeed_here(*density, "kind=red, green,a,b=1, c=d = 2", capsys=capsys) != printed
    fail_here(
        capsys,
        [
            ([*density, "a,b"], 2, ["--at takes values such as a,b=1,c=d=1,kind=", "got 'a,b'"]),
            ([*density, "a,b=1,kind=b"], 2, ["also needs a value of c=d"]),
            ([*density, "a=1,c=d=2,kind=b"], 2, ["'a'", "a,b"]),
            (fit(data, "--given", "a,b", out="n"), 2, ["no column 'a'", """'"a,b"'"""]),
        ],
    )
    assert names('"a,b", c=d') == ["a,b", "c=d"]


def test_columns_in_another_order_or_missing(write, tmp_path, capsys):
    data = write(text_of(table()))
    succeed_here(*fit(data, "--quiet"))
    shuffled = table()
    other = write(text_of({name: shuffled[name] for name in ("y", "kind", "x")}), "other.csv")
    predict = ["predict", tmp_path / "m.kcdo", "--stats", "mean", "--quiet", "-o"]
    for source, out in ((data, "p.csv"), (other, "q.csv")):
        succeed_here(*predict, tmp_path / out, source)
    means = [pd.read_csv(tmp_path / out)["mean"] for out in ("p.csv", "q.csv")]
    np.testing.assert_array_equal(*means)
    less = write("x,y\n1,2\n", "less.csv")
    fail_here(capsys, [([*predict, tmp_path / "r.csv", less], 2, ["has no column 'kind'", "x, y"])])


def test_the_warning_about_quotes_is_one_line(write):
    rows = text_of(table(note=["-"] * N)).splitlines(keepends=True)
    rows[3] = rows[3].replace("-", '"-')
    rows[9] = rows[9].replace("-", '-"')
    result = kcdo(*fit(write("".join(rows)), "--given", "x"))
    assert result.returncode == 0
    assert result.stderr.startswith("Warning: row 3 of ")
    assert "quoted field of 7 lines" in result.stderr
