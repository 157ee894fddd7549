"""Other models in the same form, at their default parameters: quantiles become a histogram."""

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.scoringbench.stand_ins import DistributionPrediction, ProbabilisticWrapper

LEVELS = np.arange(1, 100) / 100.0
BINS = 500


def histogram(quantiles, mean, train_range):
    """Return a histogram of quantiles (rows, 99) at LEVELS, a gap longer on either side."""
    places = np.maximum.accumulate(quantiles, axis=1)
    gaps = np.maximum(places[:, [1, -1]] - places[:, [0, -2]], 1e-6 * (1.0 + np.abs(places[:, :1])))
    places = np.hstack([places[:, :1] - gaps[:, :1], places, places[:, -1:] + gaps[:, 1:]])
    levels = np.concatenate([[0.0], LEVELS, [1.0]])
    shares = np.linspace(0.0, 1.0, BINS + 1)
    edges = places[:, :1] + (places[:, -1:] - places[:, :1]) * shares
    below = np.stack([np.interp(e, p, levels) for e, p in zip(edges, places, strict=True)])
    return DistributionPrediction.from_histogram(
        edges, np.diff(below, axis=1), mean, train_range=train_range
    )


class _Quantiles(ProbabilisticWrapper):
    """A model that answers with quantiles at LEVELS."""

    def predict_distribution(self, X):
        return histogram(self.quantiles(X), self.predict(X), self._y_train_range)


class NGBoostWrapper(_Quantiles):
    """Boosted normal distributions."""

    def fit(self, X, y):
        from ngboost import NGBRegressor

        self._set_train_range(y)
        self.model = NGBRegressor(verbose=False, random_state=42).fit(X, y)
        return self

    def predict(self, X):
        return self.model.predict(X)

    def quantiles(self, X):
        return self.model.pred_dist(X).ppf(LEVELS[:, None]).T


class ForestWrapper(_Quantiles):
    """Quantiles of a random forest."""

    def fit(self, X, y):
        from quantile_forest import RandomForestQuantileRegressor

        self._set_train_range(y)
        self.model = RandomForestQuantileRegressor(random_state=42).fit(X, y)
        return self

    def predict(self, X):
        return self.model.predict(X, quantiles="mean")

    def quantiles(self, X):
        return self.model.predict(X, quantiles=list(LEVELS))


class CatBoostWrapper(_Quantiles):
    """Boosted trees with a loss for all quantiles at once."""

    def fit(self, X, y):
        from catboost import CatBoostRegressor

        self._set_train_range(y)
        loss = "MultiQuantile:alpha=" + ",".join(f"{level:g}" for level in LEVELS)
        self.model = CatBoostRegressor(
            loss_function=loss, random_seed=42, verbose=False, allow_writing_files=False
        )
        self.model.fit(X, y)
        return self

    def predict(self, X):
        return self.quantiles(X).mean(axis=1)

    def quantiles(self, X):
        return np.sort(self.model.predict(X), axis=1)


class CrepesWrapper(_Quantiles):
    """A conformal predictive system around a random forest, calibrated on a quarter of the rows."""

    def fit(self, X, y):
        from crepes import WrapRegressor
        from crepes.extras import DifficultyEstimator
        from sklearn.ensemble import RandomForestRegressor

        self._set_train_range(y)
        parts = train_test_split(X, y, test_size=0.25, random_state=42)
        self.ends = float(np.min(y)), float(np.max(y))
        self.model = WrapRegressor(RandomForestRegressor(random_state=42))
        self.model.fit(parts[0], parts[2])
        # how far off predictions of near rows are: the spread of their outputs
        self.difficulty = DifficultyEstimator()
        self.difficulty.fit(X=parts[0], y=parts[2], scaler=True)
        self.model.calibrate(parts[1], parts[3], de=self.difficulty, cps=True)
        return self

    def predict(self, X):
        return self.model.predict(X)

    def quantiles(self, X):
        # few calibration rows leave the outermost percentiles open: they end at the outputs
        return self.model.predict_percentiles(
            X, higher_percentiles=list(100.0 * LEVELS), y_min=self.ends[0], y_max=self.ends[1]
        )


class FlexCodeWrapper(ProbabilisticWrapper):
    """Densities by a series whose coefficients are regressions, tuned on a quarter of the rows."""

    def fit(self, X, y):
        import flexcode
        from flexcode.regression_models import RandomForest

        self._set_train_range(y)
        parts = train_test_split(X, y, test_size=0.25, random_state=42)
        self.model = flexcode.FlexCodeModel(RandomForest, max_basis=31, basis_system="cosine")
        self.model.fit(parts[0], parts[2])
        self.model.tune(parts[1], parts[3])
        return self

    def predict_distribution(self, X):
        density, grid = self.model.predict(X, n_grid=BINS)
        middles = np.broadcast_to(np.ravel(grid), density.shape)
        step = middles[0, 1] - middles[0, 0]
        edges = np.hstack([middles - 0.5 * step, middles[:, -1:] + 0.5 * step])
        masses = np.maximum(density, 0.0)
        masses = masses / masses.sum(axis=1, keepdims=True)
        mean = (masses * middles).sum(axis=1)
        return DistributionPrediction.from_histogram(
            edges, masses, mean, train_range=self._y_train_range
        )


RIVALS = {
    "ngboost": ("ngboost", NGBoostWrapper),
    "forest": ("quantile_forest", ForestWrapper),
    "catboost": ("catboost", CatBoostWrapper),
    "crepes": ("crepes", CrepesWrapper),
    "flexcode": ("flexcode", FlexCodeWrapper),
}
