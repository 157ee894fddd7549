"""Time and memory of reading PEMS-SF, on generated files of its real size.

    python -m benchmarks.pems_memory [--days 440] [--out docs/datasets.md]

Writes 440 days of 963 sensors and 144 slots, four decimals each, into a temporary folder, which
needs about 600 MB, reads them as ``fetch_pems_sf`` does, and removes them.
"""

import argparse
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from benchmarks.speed import peak_memory, seconds
from experiments.pages import replace_table
from kcdo.datasets import read_pems_sf

SENSORS, SLOTS = 963, 144
MIB = 1 << 20


def write_part(folder: Path, part: str, n_days: int, rng: np.random.Generator) -> None:
    """Days and labels of one half of the split."""
    words = np.array([f"{k / 10_000:.4f}" for k in range(10_000)], dtype=object)
    with (folder / f"PEMS_{part}").open("w") as file:
        for _ in range(n_days):
            day = words[rng.integers(10_000, size=(SENSORS, SLOTS))]
            file.write(f"[{';'.join(' '.join(row) for row in day)}]\n")
    labels = " ".join(map(str, rng.integers(1, 8, size=n_days)))
    (folder / f"PEMS_{part}labels").write_text(f"[{labels}]\n")


def generate(folder: Path, n_days: int) -> Path:
    """The files in a folder, and beside it an archive with them; its path."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    n_train = round(n_days * 267 / 440)
    write_part(folder, "train", n_train, rng)
    write_part(folder, "test", n_days - n_train, rng)
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, file.name)
    return path


def row(what: str, path: Path, sensors: list[int] | None) -> str:
    """One line of the table: size on disk, time, memory, size of the result."""
    on_disk = sum(file.stat().st_size for file in ([path] if path.is_file() else path.iterdir()))
    sizes: list[int] = []
    took = seconds(lambda: sizes.append(read_pems_sf(path, sensors).values.nbytes))
    peak = peak_memory(f"""
from kcdo.datasets import read_pems_sf
setup = lambda: None
work = lambda _: read_pems_sf({str(path)!r}, {sensors!r})
""")
    return (
        f"| {what} | {on_disk / MIB:.0f} MiB | {took:.1f} s | {peak / MIB:.0f} MiB "
        f"| {sizes[0] / MIB:.1f} MiB |"
    )


def table(n_days: int) -> str:
    """The table as Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        archive = generate(Path(folder) / "pems_sf", n_days)
        files = archive.with_suffix("")
        lines = [
            "| read | on disk | time | peak memory | of it the result |",
            "|---|---|---|---|---|",
            row("one sensor, from the text files", files, [0]),
            row("one sensor, from the archive", archive, [0]),
            row("all sensors, from the text files", files, None),
        ]
    lines += ["", f"{n_days} days of {SENSORS} sensors and {SLOTS} slots, generated."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=440)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    text = table(arguments.days)
    print(text)
    if arguments.out:
        replace_table(arguments.out, text)


if __name__ == "__main__":
    main()
