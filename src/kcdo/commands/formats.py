"""How a table is written: the end of the file's name says it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kcdo.atomic import is_special
from kcdo.commands.errors import UsageError
from kcdo.commands.kinds import Kind
from kcdo.commands.reading import STANDARD

_TABLES = {
    "csv": ("csv", Kind.TEXT),
    "tsv": ("tsv", Kind.TEXT),
    "jsonl": ("jsonl", Kind.JSON),
    "ndjson": ("jsonl", Kind.JSON),
    "parquet": ("parquet", Kind.PARQUET),
    "pq": ("parquet", Kind.PARQUET),
    "feather": ("feather", Kind.FEATHER),
    "arrow": ("feather", Kind.FEATHER),
}
_PACKINGS = {"gz": Kind.GZIP, "bz2": Kind.BZIP2, "xz": Kind.XZ, "zip": Kind.ZIP}
_PACKED_ITSELF = ("parquet", "feather")


@dataclass(frozen=True)
class Format:
    """Which kind of table a file is to hold, and how it is compressed.

    Attributes
    ----------
    table : {"csv", "tsv", "jsonl", "parquet", "feather"}
        Kind of table.
    packing : {"gz", "bz2", "xz", "zip"} or None
        Compression of a table of text.
    kind : Kind
        What such a file holds, as its first bytes tell.
    """

    table: str
    packing: str | None
    kind: Kind

    @classmethod
    def of(cls, out: str | None) -> Format:
        """Read the format off a name; CSV for standard output, pipes and devices.

        >>> Format.of("p.tsv.gz")
        Format(table='tsv', packing='gz', kind=<Kind.GZIP: 'a gzip file'>)
        """
        if out is None or out == STANDARD or is_special(Path(out)):
            return cls("csv", None, Kind.TEXT)
        endings = [ending.lstrip(".").lower() for ending in Path(out).suffixes]
        packing = endings.pop() if endings and endings[-1] in _PACKINGS else None
        table, kind = _TABLES.get(endings[-1] if endings else "", ("", Kind.BINARY))
        if not table or (packing and table in _PACKED_ITSELF):
            raise UsageError(
                f"a table cannot be written as {Path(out).name}: end the name in .parquet or "
                ".feather, or in .csv, .tsv or .jsonl, with .gz, .bz2, .xz or .zip after these."
            )
        return cls(table, packing, _PACKINGS[packing] if packing else kind)
