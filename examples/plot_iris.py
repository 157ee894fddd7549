"""
Categories as inputs, two outputs
=================================

Fisher's irises: how long and wide are the petals, given the species and the length of the sepals? A
column of a categorical type is compared by equality; nothing needs to be encoded.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_iris

import kcdo

iris = load_iris(as_frame=True)
names = pd.Series(iris.target_names)[iris.target].to_numpy()
inputs = pd.DataFrame(
    {"species": pd.Categorical(names), "sepal length (cm)": iris.data["sepal length (cm)"]}
)
outputs = iris.data[["petal length (cm)", "petal width (cm)"]]

model = kcdo.ConditionalDensityOperator(selection="heuristic", support=(0, None))
model.fit(inputs, outputs)

fig, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained")
for ax, species in zip(axes, iris.target_names, strict=True):
    own = names == species
    length = inputs.loc[own, "sepal length (cm)"].median()
    query = pd.DataFrame({"species": [species], "sepal length (cm)": [length]})
    kcdo.JointDensityDisplay.from_estimator(model, query, outputs[own], ax=ax)
    ax.set(title=f"{species}, sepal length {length:.1f} cm")

# %%
# Outputs keep their names.

print(model.conditional(query).to_frame(["mean", "sd", "q05", "q95"]).round(2).T)
