"""kcdo in ScoringBench, a benchmark of probabilistic regression by proper scores."""
