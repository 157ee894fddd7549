"""Options and arguments that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

ModelFile = Annotated[str, typer.Argument(help="Model file of kcdo fit; - is standard input.")]
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
