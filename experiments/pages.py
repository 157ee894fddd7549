"""Tables in documentation pages, between two marks, replaced by the run that made them."""

from pathlib import Path

_START, _END = "<!-- table -->", "<!-- /table -->"


def replace_table(page: Path, table: str) -> None:
    """Put a table between the marks of a page."""
    text = page.read_text()
    start, end = text.index(_START), text.index(_END)
    page.write_text(f"{text[:start]}{_START}\n\n{table}\n\n{text[end:]}")
