"""Options and arguments that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

ModelFile = Annotated[str, typer.Argument(help="Model file of kcdo fit; - is standard input.")]
DataFiles = Annotated[
    list[str],
    typer.Argument(
        help="CSV, TSV, JSON lines, Parquet or Feather, also compressed; several files, "
        "folders, and patterns such as 'part-*.csv', are read as one table; - is standard input."
    ),
]
DataOption = Annotated[
    list[str],
    typer.Option("--data", help="Table with the inputs and the targets; repeatable."),
]
Sep = Annotated[
    str | None,
    typer.Option(
        "--sep", help="Between the fields of text: a character, or tab; found by default."
    ),
]
Decimal = Annotated[str, typer.Option("--decimal", help="Before the fraction of numbers: . or ,")]
Thousands = Annotated[
    str | None, typer.Option("--thousands", help="Between groups of three digits, in text.")
]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave out rows with missing values.")
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Write over a file of another kind; never over one that is read."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print the answer as JSON, for scripts.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


@dataclass(frozen=True)
class FitOptions:
    """How to fit.

    Attributes
    ----------
    selection : str or None
        As the estimator takes it; None is its default.
    centres : int or None
        Number of Nyström centres.
    seed : int
        Of the random choices.
    verbose : bool
        Whether to show the progress.
    """

    selection: str | None
    centres: int | None
    seed: int
    verbose: bool

    @property
    def chooses(self) -> bool:
        """Whether parameters are chosen by rows that are left out."""
        return self.selection in (None, "auto")
