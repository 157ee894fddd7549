"""How much work fits of tests may do: whether an answer is right rarely depends on its quality."""

from kcdo.components import Effort

# Two or three steps of every search, few folds.
SHORT = Effort(
    race_steps=3,
    steps=2,
    filter_steps=2,
    factorisations=2,
    near_judgements=2,
    leaders=(2, 1),
    folds=2,
    many_folds=2,
    coarse_nodes={1: 40, 2: 12, 3: 6},
    fine_nodes={1: 100, 2: 24, 3: 10},
    local_judged=(30, 40),
    local_neighbours=(12, 12),
    metric_steps=(2, 2),
    crossed_rows=0,
    crossed_per_column=0,
    rough_rows=60,
    transform_rows=60,
    importance_rows=8,
)
