"""The text files of PEMS-SF: a day is a line, a matrix in MATLAB's syntax."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.datasets.sources import Folder, open_text
from kcdo.errors import DataNotFoundError, InvalidInputError
from kcdo.memory import require_memory

_PARTS = ("train", "test")


@dataclass(frozen=True)
class PemsDays:
    """What the files of PEMS-SF hold, training days before test days.

    Parameters
    ----------
    values : ndarray of shape (days, slots, sensors)
        Occupancies of the chosen sensors.
    labels : ndarray of shape (days,)
        Day of the week, 1 to 7.
    train : ndarray of shape (days,)
        Whether a day is for training.
    sensors : list of int
        The chosen sensors.
    n_sensors : int
        How many sensors the files have.
    stations : list of str or None
        Names of all sensors, where there is a file ``stations_list``.
    calendar_order : ndarray of shape (days,) or None
        ``values[calendar_order]`` is in calendar order, where there is a file ``randperm``.
    """

    values: Array
    labels: NDArray[np.int64]
    train: NDArray[np.bool_]
    sensors: list[int]
    n_sensors: int
    stations: list[str] | None
    calendar_order: NDArray[np.intp] | None


def read_pems_sf(path: Folder, sensors: Sequence[int] | None = None) -> PemsDays:
    r"""Read files in the format of PEMS-SF, of any number of days, sensors and slots.

    Each line of ``PEMS_train`` and ``PEMS_test`` is a day: a matrix ``[a b ...; c d ...]`` with a
    row for each sensor. ``PEMS_trainlabels`` and ``PEMS_testlabels`` hold one line ``[1 2 ...]``.
    One line at a time is in memory, and of it only the chosen sensors are kept.

    Parameters
    ----------
    path : path
        The folder of these files, or a zip file with them.
    sensors : sequence of int or None
        Which sensors, counted from 0; ``None`` for all.

    Returns
    -------
    PemsDays
        Values, labels and split.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for part in ("train", "test"):
    ...     _ = (folder / f"PEMS_{part}").write_text("[0.1 0.2 0.3; 0.4 0.5 0.6]\n")
    ...     _ = (folder / f"PEMS_{part}labels").write_text("[7]\n")
    >>> days = read_pems_sf(folder)
    >>> days.values.shape, days.labels, days.train
    ((2, 3, 2), array([7, 7]), array([ True, False]))
    """
    files = _Files(Path(path))
    labels = [files.labels(f"PEMS_{part}labels") for part in _PARTS]
    n_days = sum(map(len, labels))
    parse = _DayParser(sensors)
    values: Array | None = None
    done = 0
    for part, found in zip(_PARTS, labels, strict=True):
        for day in files.days(f"PEMS_{part}", len(found), parse):
            if values is None:
                values = _allocate(n_days, day)
            values[done] = day.T
            done += 1
    if values is None:
        raise InvalidInputError(f"{files.path} has no days.")
    return PemsDays(
        values,
        np.concatenate(labels),
        np.arange(n_days) < len(labels[0]),
        parse.chosen,
        parse.n_sensors,
        files.stations(parse.n_sensors),
        files.calendar_order(n_days),
    )


def _allocate(n_days: int, day: Array) -> Array:
    """Return room for all days; slots before sensors, so that rows for a fit are a mere view."""
    n_chosen, n_slots = day.shape
    needed = 8 * n_days * day.size
    require_memory(needed, f"{n_days} days of {n_chosen} sensors", "choose fewer sensors.")
    return np.empty((n_days, n_slots, n_chosen))


class _DayParser:
    """Turns lines into matrices, all of the shape of the first."""

    def __init__(self, sensors: Sequence[int] | None) -> None:
        self._sensors = sensors
        self.chosen: list[int] = []
        self.n_sensors = 0
        self._n_slots = 0

    def __call__(self, line: str, where: str) -> Array:
        """Return the rows of the chosen sensors, shape (chosen, slots)."""
        body = line.strip()
        if not (body.startswith("[") and body.endswith("]")):
            raise InvalidInputError(
                f"{where}: a day must be a matrix [a b ...; c d ...], got "
                f"{body[:20]!r} ... {body[-20:]!r}."
            )
        rows = body[1:-1].split(";")
        if not self.n_sensors:
            self._begin(rows)
        if len(rows) != self.n_sensors:
            raise InvalidInputError(
                f"{where}: the matrix has {len(rows)} rows, the first one has {self.n_sensors}."
            )
        return self._numbers([rows[k] for k in self.chosen], where)

    def _begin(self, rows: list[str]) -> None:
        """Take the shape of the first day for that of all."""
        self.n_sensors = len(rows)
        self._n_slots = len(rows[0].split())
        self.chosen = list(range(len(rows)) if self._sensors is None else self._sensors)
        wrong = [k for k in self.chosen if not 0 <= k < len(rows)]
        if wrong or not self.chosen:
            raise InvalidInputError(
                f"sensors must be some of 0 to {len(rows) - 1}, got {wrong or 'none'}."
            )

    def _numbers(self, rows: list[str], where: str) -> Array:
        try:
            values = np.loadtxt(rows, ndmin=2, comments=None) if all(map(str.strip, rows)) else None
        except ValueError:
            values = None
        if values is None or values.shape[1] != self._n_slots or not np.isfinite(values).all():
            raise InvalidInputError(f"{where}: {self._fault(rows)}")
        return values

    def _fault(self, rows: list[str]) -> str:
        """Say what is wrong with the rows of a day."""
        for sensor, row in zip(self.chosen, rows, strict=True):
            words = row.split()
            if len(words) != self._n_slots:
                return f"sensor {sensor} has {len(words)} values, the first has {self._n_slots}."
            for word in words:
                try:
                    finite = np.isfinite(float(word))
                except ValueError:
                    finite = False
                if not finite:
                    return f"sensor {sensor} has {word!r} where a finite number should be."
        return "not a matrix of numbers."


@dataclass(frozen=True)
class _Files:
    """The files, in a folder or in a zip file."""

    path: Path

    def days(self, name: str, n_days: int, parse: _DayParser) -> Iterator[Array]:
        """Yield as many days as there are labels, one line at a time."""
        found = 0
        with self._open(name) as text:
            for number, line in enumerate(text, start=1):
                if line.isspace():
                    continue
                found += 1
                if found <= n_days:
                    yield parse(line, f"{self.path / name}, line {number}")
        if found != n_days:
            raise InvalidInputError(
                f"{self.path / name} has {found} days, but {name}labels has {n_days} labels."
            )

    def labels(self, name: str) -> NDArray[np.int64]:
        """Return days of the week, 1 to 7."""
        labels = self._whole_numbers(name)
        if not ((labels >= 1) & (labels <= 7)).all():
            raise InvalidInputError(f"{self.path / name}: labels must be from 1 to 7.")
        return labels

    def calendar_order(self, n_days: int) -> NDArray[np.intp] | None:
        """Return the inverse of the permutation that shuffled the days, if it is given."""
        try:
            permutation = self._whole_numbers("randperm")
        except DataNotFoundError:
            return None
        order = np.argsort(permutation)
        if not np.array_equal(permutation[order], np.arange(1, n_days + 1)):
            raise InvalidInputError(
                f"{self.path / 'randperm'}: not a permutation of 1 to {n_days}, the days."
            )
        return order

    def stations(self, n_sensors: int) -> list[str] | None:
        """Return the names of the sensors, if they are given."""
        try:
            names = self._words("stations_list")
        except DataNotFoundError:
            return None
        if len(names) != n_sensors:
            raise InvalidInputError(
                f"{self.path / 'stations_list'} has {len(names)} names for {n_sensors} sensors."
            )
        return names

    def _whole_numbers(self, name: str) -> NDArray[np.int64]:
        words = self._words(name)
        try:
            return np.array([int(word) for word in words], dtype=np.int64)
        except ValueError as error:
            raise InvalidInputError(
                f"{self.path / name}, line 1: whole numbers expected ({error})."
            ) from None

    def _words(self, name: str) -> list[str]:
        """Return what stands in brackets on the only line of a file."""
        with self._open(name) as text:
            body = text.read().strip()
        if not (body.startswith("[") and body.endswith("]")):
            raise InvalidInputError(f"{self.path / name}, line 1: [1 2 ...] expected.")
        return body[1:-1].split()

    def _open(self, name: str) -> AbstractContextManager[IO[str]]:
        if self.path.suffix == ".zip":
            return open_text(self.path, name)
        if not (self.path / name).is_file():
            raise DataNotFoundError(f"There is no file {name} in {self.path}.")
        return open_text(self.path / name)
