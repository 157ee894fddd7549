"""What every component of a mixture promises, whoever wrote it."""

import numpy as np


def assert_keeps_its_promises(component, rows, queries):
    """Check a component that was fitted to rows: names, shapes, finite densities, held-out rows."""
    judged = np.array([7, 0, len(rows) - 1])
    made, held_out = component.predict(queries), component.held_out(judged)
    assert tuple(made) == tuple(held_out) == component.names
    assert isinstance(component.linear, bool)
    assert component.dim == rows.Y.shape[1]
    assert component.nbytes >= 0
    assert component.width(queries) >= 0
    bare = component.without_training()
    for name, batch in made.items():
        assert len(batch) == len(queries)
        assert len(held_out[name]) == len(judged)
        values = batch.pdf(rows.Y[:9])
        assert np.all(np.isfinite(values) & (values >= 0))
        again = bare.predict(queries)[name].pdf(rows.Y[:9])
        np.testing.assert_allclose(again, values, rtol=1e-9, atol=1e-12)
        assert np.all(np.isfinite(held_out[name].pdf_pairs(rows.Y[judged])))
