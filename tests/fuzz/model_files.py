"""Model files changed at random: each is refused, or loads into a model that answers.

``python -m tests.fuzz.model_files --count 5000`` prints one line at the end; ``--only 1234`` looks
at one file by itself. tests/test_persistence_fuzz.py runs a few hundred with the other tests.
"""

import argparse
import io
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import kcdo
from tests import model_files
from tests.model_files import npy, places, reseal, seal

Parts = dict[str, bytes]
METADATA = "metadata.json"
ROOT = Path(__file__).parents[2]
OLD = ROOT / "tests" / "data"
LONGEST = 30  # seconds of the processor after which a file counts as a crash
ALLOWED_SECONDS, ALLOWED_MEMORY = 2.0, 500.0  # of the processor, and MB, for one file

# --- files to begin with


def originals(folder: Path) -> list[Path]:
    """Write a model of each kind, and return all files."""
    X, Y = model_files.data(40)
    auto = kcdo.ConditionalDensityOperator(support=(-9.0, None)).fit(X[:25], Y[:25])
    models = {
        "nystrom": model_files.nystrom()[0],
        "auto": auto,
        "rows": model_files.cdo(reference=kcdo.UniformBox(nodes=(9, 10))).fit(X, np.c_[Y, -Y]),
        "mean": kcdo.ConditionalMeanOperator().fit(X, Y),
        "density": kcdo.DensityReconstruction().fit(Y[:, None]),
        "split": kcdo.conformalize(auto, X[25:], Y[25:]),
        "scikit": model_files.cdo(kernel_x=_sklearn_kernel()).fit(X, Y),
    }
    for name, model in models.items():
        model.save(folder / f"{name}.kcdo")
    return [folder / f"{name}.kcdo" for name in models] + sorted(OLD.glob("model-1.0*.kcdo"))


def _sklearn_kernel() -> Any:
    from sklearn.gaussian_process.kernels import RBF, RationalQuadratic

    return RBF([0.5, 2.0]) * RationalQuadratic() + 0.1


def answers(model: Any) -> np.ndarray:
    """Return what a model says of a few queries, whatever its kind."""
    if isinstance(model, kcdo.DensityReconstruction):
        return model.pdf([[0.1], [0.5]])
    estimator = model.model if isinstance(model, kcdo.ConformalPredictor) else model
    queries: Any = np.array([[0.1, 0.2], [-0.5, 0.5]])
    if hasattr(estimator, "feature_names_in_"):
        from tests.make_model_fixture import queries as of_frame  # pandas, for old files alone

        queries = of_frame().head(2)[list(estimator.feature_names_in_)]
    if isinstance(model, kcdo.ConformalPredictor):
        return model.interval(queries, 0.5)
    if isinstance(model, kcdo.ConditionalMeanOperator):
        return model.predict(queries)
    return np.asarray(model.conditional(queries).quantile([0.1, 0.6]))


# --- ways to change a file


def truncated(content: bytes, rng: random.Random) -> bytes:
    """Cut the end off."""
    return content[: rng.randrange(len(content))]


def flipped(content: bytes, rng: random.Random) -> bytes:
    """Flip some bits."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 20))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def doubled(content: bytes, rng: random.Random) -> bytes:
    """Repeat, insert or leave out a stretch of bytes."""
    first, second = sorted(rng.randrange(len(content)) for _ in range(2))
    second = min(second, first + 1000)
    middle = rng.choice((b"", content[first:second] * 2, rng.randbytes(second - first)))
    return content[:first] + middle + content[second:]


def swapped_members(parts: Parts, rng: random.Random) -> None:
    """Exchange the contents of two members, or drop or add one."""
    one, other = (rng.choice(list(parts)) for _ in range(2))
    kind = rng.randrange(4)
    if kind < 2:
        parts[one], parts[other] = parts[other], parts[one]
    elif kind == 2:
        del parts[one]
    else:
        parts[rng.choice(("arrays/zz.npy", "arrays/../x.npy", "more.json"))] = parts[other]


def another_array(parts: Parts, rng: random.Random) -> None:
    """Change one array: its numbers, sizes, kind or order."""
    name = rng.choice([name for name in parts if name.endswith(".npy")] or [METADATA])
    if name == METADATA:
        return
    array = np.load(io.BytesIO(parts[name]))
    change = rng.choice(_ARRAY_CHANGES)
    with np.errstate(all="ignore"):
        parts[name] = npy(np.asarray(change(array)))


_ARRAY_CHANGES: list[Callable[[np.ndarray], Any]] = [
    lambda a: a[:-1] if a.ndim else a,
    lambda a: a.T,
    lambda a: a.ravel(),
    lambda a: a[None],
    lambda a: np.zeros_like(a),
    lambda a: -a if a.dtype != bool else ~a,
    lambda a: a.astype(np.float32),
    lambda a: a.astype(np.int64),
    lambda a: a.astype(np.float64) * np.nan,
    lambda a: a.astype(np.float64) * 1e300,
    lambda a: a.astype(np.float64) * 1e-300,
    lambda a: a.astype(np.complex128),
    lambda a: np.asfortranarray(a),
    lambda a: np.zeros((0, 5)),
    lambda a: np.zeros((1 << 20, 0)),
    lambda a: np.concatenate([a, a]) if a.ndim else a,
    lambda a: np.ones((3, 3, 3)),
]


def another_header(parts: Parts, rng: random.Random) -> None:
    """Change the sizes that an array declares."""
    name = rng.choice([name for name in parts if name.endswith(".npy")] or [METADATA])
    digits = [i for i, byte in enumerate(parts[name][:128]) if chr(byte).isdigit()]
    if digits:
        place = rng.choice(digits)
        changed = parts[name][:place] + str(rng.randrange(10)).encode()
        parts[name] = changed + parts[name][place + 1 :]


JUNK = (
    *(None, True, False, 0, 1, -1, 2, 3, 10**6, 2**63, 2**64, -(2**70), 0.5, -0.0, 1e300, 1e-300),
    *("", "a", "plain", "float32", [], {}, [[]], {"$tuple": []}, {"$dict": []}, {"$float": "nan"}),
    *({"$float": "inf"}, {"$ref": 0}, {"$ref": 5}, {"$ref": -1}, {"$array": "a0"}),
    *({"$array": "a1"}, {"$double": "a2"}, {"$eval": "1"}, {"$scalar": ["<f8", 7]}),
    *({"$scalar": ["|b1", 1]}, {"$scalar": ["|O", 1]}, {"$strings": ["a"]}, {"$strings": "ab"}),
    *({"$dict": [["a", 1]]}, {"$dict": [[{"$dict": []}, 1]]}, {"a": 1, "b": 2}),
)


def another_value(tree: Any, rng: random.Random) -> None:
    """Put junk in place of one value, or the value of another place."""
    *way, last = rng.choice([p for p in places(tree) if p])
    parent = _at(tree, way)
    other = _at(tree, rng.choice(list(places(tree))))
    parent[last] = json.loads(json.dumps(rng.choice([*JUNK, other])))


def another_name(tree: Any, rng: random.Random) -> None:
    """Give a record the class of another, a field another name, or one that does not exist."""
    record = rng.choice(tree)
    kind = rng.randrange(3)
    if kind == 0:
        record["class"] = rng.choice(tree)["class"]
    elif kind == 1:
        record["class"] = rng.choice(("os.system", "sklearn.Sum", "sklearn.None", "", "Mixture"))
    elif record["fields"]:
        name = rng.choice(list(record["fields"]))
        record["fields"][rng.choice(("x", "name", name[:-1]))] = record["fields"].pop(name)


def another_order(tree: Any, rng: random.Random) -> None:
    """Leave out, repeat or exchange records."""
    i, j = rng.randrange(len(tree)), rng.randrange(len(tree))
    kind = rng.randrange(3)
    if kind == 0:
        del tree[i]
    elif kind == 1:
        tree.insert(i, json.loads(json.dumps(tree[j])))
    else:
        tree[i], tree[j] = tree[j], tree[i]


def another_size(tree: Any, rng: random.Random) -> None:
    """Change one number."""
    numbers = [p for p in places(tree) if p and type(_at(tree, p)) in (int, float)]
    *way, last = rng.choice(numbers)
    value = _at(tree, way)[last]
    factors = (-1, 0, 2, 0.5, 10**3, 10**9, 10**18, 1e-9, 1e-300, 1e300)
    try:
        _at(tree, way)[last] = type(value)(value * rng.choice(factors))
    except OverflowError:
        _at(tree, way)[last] = 0


def deeper(tree: Any, rng: random.Random) -> None:
    """Nest one value in itself, or records in one another, many times."""
    depth = rng.choice((2, 50, 300))
    if rng.randrange(2):
        *way, last = rng.choice([p for p in places(tree) if p])
        for _ in range(depth):
            _at(tree, way)[last] = [_at(tree, way)[last]]
        return
    first = len(tree)
    tree.append({"class": "Gaussian", "fields": {"scale": 1.0}})
    kind = rng.choice(("Sum", "Product", "OnColumns", "Nugget", "alternating"))
    for i in range(depth):
        tree.append(_around(kind, i, {"$ref": first + i}, rng.choice((1, 2))))
    record = rng.choice([r for r in tree[:first] if "kernel" in r["fields"]] or tree[:1])
    tree.remove(record)
    record["fields"]["kernel"] = {"$ref": len(tree) - 1}
    tree.append(record)


def _around(kind: str, i: int, inner: Any, times: int) -> Any:
    """Return the record of a kernel made of another."""
    if kind == "alternating":
        kind = ("Sum", "Product")[i % 2]
    if kind == "OnColumns":
        return {"class": kind, "fields": {"kernel": inner, "columns": {"$tuple": [0]}}}
    if kind == "Nugget":
        return {"class": kind, "fields": {"kernel": inner, "share": 0.1}}
    return {"class": kind, "fields": {"kernels": {"$tuple": [inner] * times}}}


def larger(parts: Parts, rng: random.Random) -> None:
    """Add members, values or zeros by the thousand."""
    kind = rng.randrange(5)
    metadata = json.loads(parts[METADATA])
    if kind == 0:
        parts |= {f"arrays/b{i}.npy": npy(np.zeros(1)) for i in range(6000)}
    elif kind == 1:
        parts["arrays/b.npy"] = npy(np.zeros(20_000_000))
    elif kind == 2:
        metadata["objects"] += metadata["objects"] * rng.choice((10, 300))
    elif kind == 3:
        depth = rng.choice((900, 10**4, 10**6))
        parts[METADATA] = parts[METADATA].replace(b"null", b"[" * depth + b"]" * depth, 1)
        return
    else:
        filling = rng.choice(([[]], [{"": 0}], ["a" * 50], [1.5], [{"$ref": 0}]))
        metadata["objects"][0]["fields"]["x"] = filling * rng.choice((10**4, 3 * 10**5, 10**6))
    parts[METADATA] = json.dumps(metadata).encode()


def _at(tree: Any, way: Any) -> Any:
    for key in way:
        tree = tree[key]
    return tree


OF_BYTES = (truncated, flipped, doubled)
OF_PARTS = (swapped_members, another_array, another_array, another_header, larger)
OF_TREES = (another_value, another_value, another_name, another_order, another_size, deeper)


def mutated(source: Path, target: Path, rng: random.Random) -> str:
    """Write a changed copy of a file; return how it was changed."""
    sealed = rng.random() < 0.5
    change: Any = rng.choice((*OF_BYTES, *OF_PARTS, *OF_PARTS, *OF_TREES, *OF_TREES))
    if change in OF_BYTES:
        target.write_bytes(change(source.read_bytes(), rng))
        if sealed and target.stat().st_size > 100:
            reseal(target)
        return f"{change.__name__}{', resealed' if sealed else ''}"
    with zipfile.ZipFile(source) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    if change in OF_PARTS:
        change(parts, rng)
    else:
        metadata = json.loads(parts[METADATA])
        for _ in range(rng.choice((1, 1, 3))):
            with suppress(LookupError, TypeError, AttributeError):  # it may be junk already
                change(metadata["objects"], rng)
        parts[METADATA] = json.dumps(metadata).encode()
    packing = zipfile.ZIP_DEFLATED if rng.random() < 0.5 else zipfile.ZIP_STORED
    with zipfile.ZipFile(target, "w", packing) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    seal(target)
    return change.__name__


# --- the campaign: files are made here and loaded by another process, which may die of them


@dataclass
class Summary:
    """What became of all files."""

    files: int = 0
    refused: int = 0
    equal: int = 0  # loaded, with the answers of the original
    other: int = 0  # loaded, with other answers: a number was changed for one that may be
    crashes: list[str] = field(default_factory=list)
    slowest: float = 0.0  # seconds of the processor for one load
    slowest_file: str = ""
    memory: float = 0.0  # the most that the loading process ever had, in MB

    def add(self, how: str, told: dict[str, Any]) -> None:
        """Count one file."""
        self.files += 1
        if told["crash"]:
            self.crashes.append(f"{how}: {told['crash']}")
        else:
            setattr(self, told["outcome"], getattr(self, told["outcome"]) + 1)
        if told["seconds"] > self.slowest:
            self.slowest, self.slowest_file = told["seconds"], how
        self.memory = max(self.memory, told["memory"])

    @property
    def within_bounds(self) -> bool:
        """Whether no file crashed, took long or took much memory."""
        small = self.slowest <= ALLOWED_SECONDS and self.memory <= ALLOWED_MEMORY
        return small and not self.crashes

    def __str__(self) -> str:
        return (
            f"{self.files} files: {self.refused} refused, {self.equal} loaded equal, {self.other} "
            f"loaded with other numbers, {len(self.crashes)} crashes; slowest {self.slowest:.2f} s "
            f"({self.slowest_file}), peak memory {self.memory:.0f} MB"
        )


def campaign(count: int, seed: int = 0, only: int | None = None) -> Summary:
    """Load so many changed files, and return what became of them."""
    summary = Summary()
    with tempfile.TemporaryDirectory() as name, _Loader() as loader:
        folder = Path(name)
        files = originals(folder)
        for number in range(count) if only is None else [only]:
            rng = random.Random(f"{seed} {number}")
            file, target = rng.choice(files), folder / "changed.kcdo"
            how = f"file {number}: {file.stem}, {mutated(file, target, rng)}"
            summary.add(how, loader.told(file, target))
    return summary


class _Loader:
    """A process that loads files and tells what became of them."""

    def __enter__(self) -> "_Loader":
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def _start(self) -> None:
        command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, "--serve"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )

    def told(self, original: Path, file: Path) -> dict[str, Any]:
        """Return what became of one file."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(original), str(file)]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        code = self._process.wait()
        self._start()
        return {"crash": f"the process died ({code})", "seconds": 0.0, "memory": 0.0}


def serve() -> None:
    """Load the files that are named on standard input."""
    signal.signal(signal.SIGPROF, _too_long)
    known: dict[str, np.ndarray] = {}
    for line in sys.stdin:
        original, file = json.loads(line)
        if original not in known:
            known[original] = answers(kcdo.load(original))
        print(json.dumps(_told(Path(file), known[original])), flush=True)


def _told(file: Path, expected: np.ndarray) -> dict[str, Any]:
    outcome, crash = "refused", ""
    started = time.process_time()  # others may use the machine too
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    try:
        with suppress(kcdo.ModelFileError, kcdo.NotEnoughMemoryError):
            model = kcdo.load(file)
            outcome = "loaded"
    except Exception as error:
        crash = f"load raised {type(error).__name__}: {error}"
    seconds = time.process_time() - started
    if outcome == "loaded":
        outcome = "other"
        signal.setitimer(signal.ITIMER_PROF, LONGEST)
        try:
            with suppress(kcdo.KcdoError):
                outcome = "equal" if _same(answers(model), expected) else "other"
        except Exception as error:
            crash = f"a query raised {type(error).__name__}: {error}"
    signal.setitimer(signal.ITIMER_PROF, 0)
    return {"outcome": outcome, "crash": crash, "seconds": seconds, "memory": peak_memory()}


def peak_memory() -> float:
    """Return the most memory that this process ever had, in MB (0 where the system has no word)."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


def _same(found: np.ndarray, expected: np.ndarray) -> bool:
    return found.shape == expected.shape and np.array_equal(found, expected, equal_nan=True)


def _too_long(*_: object) -> None:
    raise TimeoutError(f"more than {LONGEST} s")


def main() -> None:
    """Run a campaign and print its summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of one file")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        warnings.simplefilter("ignore")
        serve()
        return
    summary = campaign(options.count, options.seed, options.only)
    for crash in summary.crashes:
        print(crash)
    print(summary)
    raise SystemExit(not summary.within_bounds)


if __name__ == "__main__":
    main()
