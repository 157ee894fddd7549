"""Imports point downward only, as the layers in pyproject.toml say."""

from pathlib import Path

from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


def test_import_layers_hold():
    assert lint_imports(config_filename=str(PYPROJECT), no_cache=True) == EXIT_STATUS_SUCCESS
