"""Methods that give quantiles: how they are fitted, and smoothed where a density is asked for."""

from typing import Any

import numpy as np

from kcdo.arrays import Array
from kcdo.rivals.base import NotApplicable, held_out_split
from kcdo.rivals.quantiles import Quantiles, Smoothed


class FromQuantiles(Smoothed):
    """Base of methods that give quantiles: a trial on four fifths chooses how to smooth them.

    Subclasses say how to learn, and how to predict the 199 quantiles, (Q, 199).
    """

    def _fit(self, X: Array, Y: Array) -> None:
        if Y.shape[1] > 1:
            raise NotApplicable("one output only")
        held, rest = held_out_split(len(X), self.seed)
        trial = self._trial(X[rest], Y[rest, 0], X[held], Y[held, 0])
        self._smooth(self._sorted(trial, X[held]), Y[held])
        self._fitted = self._learn(X, Y[:, 0], trial)

    def _conditional(self, X: Array) -> Quantiles:
        return Quantiles(self._sorted(self._fitted, X), *self.smoothing)

    def _sorted(self, model: Any, X: Array) -> Array:
        return np.sort(self._quantiles(model, X), axis=1)

    def _trial(self, X: Array, y: Array, X_held: Array, y_held: Array) -> Any:
        """A model of some rows; the held-out ones may stop it."""
        return self._learn(X, y, None)

    def _learn(self, X: Array, y: Array, trial: Any) -> Any:
        raise NotImplementedError

    def _quantiles(self, model: Any, X: Array) -> Array:
        raise NotImplementedError
