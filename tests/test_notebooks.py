"""The notebooks of examples/notebooks run from top to bottom."""

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_three():
    names = ["first_steps", "from_csv_to_decision", "many_rows"]
    assert [path.stem for path in NOTEBOOKS] == names


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, short_searches):
    """Its code cells, in one namespace, as Jupyter runs them; searches are short."""
    plt = pytest.importorskip("matplotlib.pyplot")
    pytest.importorskip("pandas")
    plt.switch_backend("agg")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    namespace: dict[str, object] = {"__name__": "__main__"}
    try:
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                assert cell["outputs"] == []  # they would be out of date one day
                exec(compile("".join(cell["source"]), path.name, "exec"), namespace)
    finally:
        plt.close("all")
