"""The paper's experiments, and one on its section 5: each a list of runs, a table and figures."""

from experiments.runner import Study
from experiments.studies import donut, embeddings, terrain, traffic

STUDIES: dict[str, Study] = {
    module.STUDY.name: module.STUDY for module in (donut, terrain, traffic, embeddings)
}

__all__ = ["STUDIES"]
