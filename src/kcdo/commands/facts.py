"""What a model file says of itself, read without making the model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kcdo.commands.console import counted, listed, size_text
from kcdo.commands.reading import named_file
from kcdo.commands.told_scores import score_lines, told_in_turn
from kcdo.errors import ModelFileError
from kcdo.persistence.metadata import model_info

_NOT_TOLD = ("loss",)  # of a search, in units of its own: the scores of a test can be compared


@dataclass(frozen=True)
class Facts:
    """Columns, their kinds, where the rows came from, and the report of the fit.

    Attributes
    ----------
    told : dict
        What :func:`kcdo.persistence.metadata.model_info` returns.
    """

    told: dict[str, Any]

    @classmethod
    def of_file(cls, name: str | Path) -> Facts:
        """Read the facts of a model file; older files do not tell their columns and are loaded."""
        with named_file(str(name)) as path:
            try:
                told = model_info(path)
                if "columns" not in told:
                    from kcdo.loading import load
                    from kcdo.persistence.models import description

                    told = description(load(path)) | {"size": told["size"]}
                return cls(told)._checked()
            except ModelFileError as error:  # of a copy, the name says nothing to the user
                raise ModelFileError(str(error).replace(str(path), str(name))) from error

    @classmethod
    def of(cls, saved: Any) -> Facts:
        """Return the facts of a model that is to be saved."""
        from kcdo.persistence.models import description

        return cls(description(saved))

    @property
    def columns(self) -> dict[str, Any]:
        """Names of ``given`` and ``target``, ``categories`` and ``periods``."""
        return dict(self.told["columns"])

    def lines(self) -> list[str]:
        """Return the facts as lines for people."""
        given, target = self.columns["given"], self.columns["target"]
        width = max(map(len, [*given, "target"]))
        kinds = [f"{name:<{width}}  {self.kind(name)}" for name in given]
        chosen = {n: v for n, v in (self.told["report"] or {}).items() if n not in _NOT_TOLD}
        report = [f"{name:14s} {value}" for name, value in chosen.items()]
        return [f"{'target':<{width}}  {listed(target)}", *kinds, *self._origin(), "", *report]

    def kind(self, name: str) -> str:
        """Return what an input is, in words."""
        columns = self.columns
        if name in columns["categories"]:
            return f"categories: {listed(sorted(columns['categories'][name]))}"
        if name in columns["periods"]:
            return f"number, periodic with period {columns['periods'][name]:g}"
        return "number"

    def plain(self) -> dict[str, Any]:
        """Return the facts for scripts."""
        return {
            **self.columns,
            "held_out": self._held_out(),
            "test": (self.told["training"] or {}).get("test") or None,
            "calibration": self.told.get("calibration"),
            "report": self.told["report"],
            "size": self.told.get("size"),
        }

    def _origin(self) -> list[str]:
        """Return lines that tell which rows were fitted, and which were kept back."""
        seen, calibration = self.told["training"], self.told.get("calibration")
        lines = []
        if "size" in self.told:
            size = self.told["size"]
            packed, whole = size_text(size["file"]), size_text(size["unpacked"])
            lines.append(f"file of {packed}, {whole} unpacked")
        if seen is not None:
            lines.append(f"fitted to {counted(seen['n_rows'], 'row')} of {listed(seen['files'])}")
        if calibration is not None:
            rows = counted(calibration["rows"], "row")
            lines.append(f"calibrated on {rows} ({calibration['method']}): predict --conformal")
        if seen is not None and seen["n_held_out"]:
            share = f"{self._share():.1%}"
            kept = counted(seen["n_held_out"], "row")
            lines.append(f"kept back {kept} ({share}): {seen['split']}")
        if seen is not None and seen["test"]:
            if seen["test"].get("in_turn"):
                rows = counted(seen["test"]["rows"], "row")
                lines.append(f"tested on {rows} {told_in_turn(seen['test'])}")
            lines += [f"  {line}" for line in score_lines(seen["test"])]
        return ["", *lines] if lines else []

    def _held_out(self) -> dict[str, Any] | None:
        """Return what was kept back from the fit; None if nothing was, or nobody knows."""
        seen = self.told["training"]
        if seen is None or not seen["n_held_out"]:
            return None
        return {"rows": seen["n_held_out"], "fraction": self._share(), "split": seen["split"]}

    def _share(self) -> float:
        seen = self.told["training"]
        kept = seen["n_held_out"]
        return float(kept / (seen["n_rows"] + kept + seen["n_calibration"]))

    def _checked(self) -> Facts:
        """Return the facts, if they can be told: a forged file may say anything."""
        try:
            self.lines()
            self.plain()
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise ModelFileError(f"what the file says of itself is damaged ({what}).") from error
        return self
