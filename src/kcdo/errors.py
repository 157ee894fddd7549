"""Exceptions and warnings; each derives from the built-in that fits."""


class KcdoError(Exception):
    """Base of every error that kcdo raises on purpose."""


class InvalidInputError(KcdoError, ValueError):
    """Data or a parameter is not usable; the message says which, why and what to do."""


class InvalidTypeError(KcdoError, TypeError):
    """An argument is of a kind that the call cannot use."""


class SignedDensityError(KcdoError, ValueError):
    """The question has no answer for a density that may be negative."""


class ModelFileError(KcdoError, ValueError):
    """A file is no model file, is damaged, or comes from a newer version."""


class NotEnoughMemoryError(KcdoError, MemoryError):
    """The work would need more memory than there is; nothing was allocated."""


class ClusterError(KcdoError, RuntimeError):
    """A cluster cannot go on: it is out of reach, workers died, or a chunk cannot be read there."""


class DataNotFoundError(KcdoError, FileNotFoundError):
    """A data set is neither in the data folder nor could it be downloaded."""


class MissingExtraError(KcdoError, ImportError):
    """An optional package is not installed; the message says how to install it."""


class KcdoWarning(UserWarning):
    """Base of every warning of kcdo."""


class SupportWarning(KcdoWarning):
    """A visible share of the outputs lies outside the support of the reference measure."""


class AccuracyWarning(KcdoWarning):
    """A numerical approximation is coarser than usual; the message says how to refine it."""


class DiscreteOutputWarning(KcdoWarning):
    """An output takes few values only: densities of it are blurred, log scores mean little."""
