"""The type of the numbers that everything here computes with."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
