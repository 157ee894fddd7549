"""Tables in documentation pages, between two marks, replaced by the run that made them."""

from pathlib import Path


def replace_table(page: Path, table: str, name: str = "") -> None:
    """Put a table between the marks of a page, those of that name where it has several."""
    label = f"table {name}".strip()
    first, last = f"<!-- {label} -->", f"<!-- /{label} -->"
    text = page.read_text()
    start, end = text.index(first), text.index(last)
    page.write_text(f"{text[:start]}{first}\n\n{table}\n\n{text[end:]}")
