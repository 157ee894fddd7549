"""How much one request may ask for."""

from __future__ import annotations

import time
from dataclasses import dataclass

from kcdo.errors import KcdoError

__all__ = ["Deadline", "Limits", "RequestError"]


class RequestError(KcdoError):
    """A request that is not answered; the message goes to the client.

    Parameters
    ----------
    status : int
        Of the HTTP response.
    message : str
        What was wrong, and what to do.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Limits:
    """What a single request may ask for.

    Attributes
    ----------
    rows : int
        Rows of a table, and draws.
    bytes : int
        Of its body.
    seconds : float
        From its arrival to its answer, waiting for others included.
    """

    rows: int = 100_000
    bytes: int = 20_000_000
    seconds: float = 30.0

    def check_rows(self, n: int, what: str = "rows") -> None:
        """Raise if there are too many."""
        if n > self.rows:
            raise RequestError(
                413, f"{n} {what} are too many for one request: ask for at most {self.rows}."
            )

    def check_bytes(self, n: int) -> None:
        """Raise if a body is too long."""
        if n > self.bytes:
            raise RequestError(
                413, f"the body is longer than {self.bytes} bytes: send it in smaller parts."
            )


class Deadline:
    """The end of the time that a request has."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._end = seconds, time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self._end - time.monotonic()

    def check(self) -> None:
        """Raise if the time is over."""
        if self.left <= 0:
            raise RequestError(
                503,
                f"the answer takes longer than {self._seconds:g} s: ask for fewer rows, or later.",
            )
