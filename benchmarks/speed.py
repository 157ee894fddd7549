"""Speed and memory, as ratios measured in one run.

    python -m benchmarks.speed [--quick] [--only NAME ...] [--out docs/benchmarks.md]

Each case is measured beside the work it cannot avoid (LAPACK, BLAS, kernel values), or beside a
peer, in alternation, and the medians are compared: absolute times of a shared machine mean little.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy
import sklearn
from scipy.linalg import eigh
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs

import kcdo
from experiments.pages import replace_table
from kcdo.kernels import DensityKernel, cross_gram, gram, lower_gram
from kcdo.measures import Grid
from kcdo.reconstruction import Reconstruction

P = 8
NODES = 200
KERNEL_X = kcdo.Gaussian(3.0)
KERNEL_Y = kcdo.Gaussian(0.2)


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    case: str
    beside: str
    ours: str
    theirs: str
    ratio: str
    target: str


def regression(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A smooth function of eight inputs, plus noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, P))
    return X, np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.standard_normal(n)


def model(**options: object) -> kcdo.ConditionalDensityOperator:
    """The estimator with fixed kernels, as the targets ask."""
    fixed = {
        "kernel_x": KERNEL_X,
        "kernel_y": KERNEL_Y,
        "reference": kcdo.UniformBox(-4.0, 4.0, nodes=NODES),
        "selection": "heuristic",
    }
    return kcdo.ConditionalDensityOperator(**{**fixed, **options})


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def alternate(
    ours: Callable[[], object], theirs: Callable[[], object], times: int = 3
) -> tuple[float, float]:
    """Median times of two pieces of work, run in turn after one warm-up each."""
    ours(), theirs()
    pairs = np.array([(seconds(ours), seconds(theirs)) for _ in range(times)])
    return tuple(np.median(pairs, axis=0))


def peak_memory(code: str) -> float:
    """Bytes by which a fresh process grows at its peak while it runs ``code`` after its set-up.

    The code must define ``setup()`` and ``work(prepared)``.
    """
    script = f"""
import resource, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from benchmarks.speed import *
{code}
prepared = setup()
def status(name):
    for line in open('/proc/self/status'):
        if line.startswith(name):
            return int(line.split()[1]) * 1024
before = status('VmRSS:')
open('/proc/self/clear_refs', 'w').write('5')  # reset the peak
work(prepared)
print(status('VmHWM:') - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def ratio(name: str, ours: float, theirs: float, beside: str, target: str) -> Row:
    """A row whose ratio is ours over theirs."""
    return Row(name, beside, f"{ours:.3g} s", f"{theirs:.3g} s", f"{ours / theirs:.2f} ×", target)


def speedup(name: str, ours: float, theirs: float, beside: str, target: str) -> Row:
    """A row whose ratio is theirs over ours."""
    return Row(
        name, beside, f"{ours:.3g} s", f"{theirs:.3g} s", f"{theirs / ours:.3g} × faster", target
    )


def exact(quick: bool) -> list[Row]:
    """Exact fit against kernel fill and Cholesky, against the literal formula, and its memory."""
    n = 2000 if quick else 8000
    X, Y = regression(n)

    def limit() -> None:
        matrix = lower_gram(KERNEL_X, X)
        np.einsum("ii->i", matrix)[:] += 1.0
        dpotrf(matrix.T, lower=0, overwrite_a=1, clean=0)

    def literal() -> None:
        Z = np.linspace(-4, 4, NODES)[:, None]
        alpha = NODES**-0.5
        L_Z, L_ZY = KERNEL_Y(Z), KERNEL_Y(Z, Y[:, None])
        inner = np.linalg.inv(L_Z + alpha * np.eye(NODES))
        inner @ inner @ L_ZY @ np.linalg.inv(KERNEL_X(X) + n * alpha * np.eye(n))

    name = f"exact fit, N = {n}, p = 8, d = 1, M = {NODES}"
    ours, theirs = alternate(lambda: model(solver=kcdo.Exact()).fit(X, Y), limit)
    rows = [ratio(name, ours, theirs, "one kernel fill + one `potrf`", "≤ 1.35 ×")]
    slow = seconds(literal)
    rows.append(speedup("same", ours, slow, "the paper's formula, two explicit inverses", "≥ 5 ×"))
    used = peak_memory(
        f"def setup():\n    return regression({n})\n"
        "def work(data):\n    model(solver=kcdo.Exact()).fit(*data)\n"
    )
    share = used / (8.0 * n * n)
    rows.append(
        Row(
            "same, peak memory",
            "8·N² bytes",
            mib(used),
            mib(8.0 * n * n),
            f"{share:.2f} ×",
            "≤ 1.3 ×",
        )
    )
    return rows


def grouped(quick: bool) -> list[Row]:
    """Repeated inputs: the size of the PEMS-SF experiment, on generated data."""
    slots, repeats, nodes = (24, 8, 168) if quick else (144, 32, 1008)
    rng = np.random.default_rng(0)
    inputs = np.array([[day, slot] for day in range(7) for slot in range(slots)], dtype=float)
    X = np.repeat(inputs, repeats, axis=0)
    Y = np.sin(X[:, 1] / 20.0) + 0.1 * rng.standard_normal(len(X))
    kernel_x, kernel_y = kcdo.Laplace(20.0), kcdo.Gaussian(0.02)
    options = {
        "kernel_x": kernel_x,
        "kernel_y": kernel_y,
        "reference": kcdo.UniformBox(-2.0, 2.0, nodes=nodes),
        "solver": kcdo.Exact(),
    }
    n = len(inputs)
    targets = np.asfortranarray(rng.random((n, nodes)))
    Z = np.linspace(-2, 2, nodes)[:, None]

    def parts(eigen: bool) -> None:
        np.unique(X, axis=0, return_inverse=True)
        matrix = lower_gram(kernel_x, inputs)
        np.einsum("ii->i", matrix)[:] += 1.0
        factor, _ = dpotrf(matrix.T, lower=0, overwrite_a=1, clean=0)
        dpotrs(factor, targets, lower=0)
        output = gram(DensityKernel(kernel_y, 1), Z)
        if eigen:
            eigh(output)
        else:
            np.einsum("ii->i", output)[:] += 1.0
            dpotrf(output.T, lower=0, overwrite_a=1, clean=0)

    name = f"grouped fit, {len(X)} pairs, {n} inputs, M = {nodes}"
    beside = "`unique` + fill + `potrf` + solve + output factorisation, "
    work = lambda: model(**options).fit(X, Y)  # noqa: E731
    ours, eigen = alternate(work, lambda: parts(True), times=7)
    again, cholesky = alternate(work, lambda: parts(False), times=7)
    rows = [
        ratio(name, ours, eigen, beside + "by eigenvectors", "≤ 1.5 ×"),
        ratio("same", again, cholesky, beside + "by Cholesky, as the fit does", "(≤ 1.5 ×)"),
    ]
    size = 1000 if quick else 4000
    jitter = X[:size] + 1e-9 * rng.standard_normal((size, 2))
    part = seconds(lambda: model(**options).fit(jitter, Y[:size]))
    whole = part * (len(X) / size) ** 3
    rows.append(
        speedup(
            "same",
            ours,
            whole,
            f"the ungrouped fit (measured at N = {size}, extrapolated as N³)",
            "≥ 100 ×",
        )
    )
    return rows


def grid_2d(quick: bool) -> list[Row]:
    """Reconstruction on a 2-D grid against a dense solve on the same nodes."""
    side, dense_side = (48, 48) if quick else (128, 128)
    rng = np.random.default_rng(0)
    kernel = DensityKernel(kcdo.Gaussian((0.2, 0.2)), 2)
    grid = Grid(np.full(2, -3.0), np.full(2, 3.0), (side, side))
    outputs = rng.standard_normal((200, 2))
    embeddings = Reconstruction(grid, kernel, 0.1).embed(outputs)

    def kronecker() -> None:
        Reconstruction(grid, kernel, 0.1).reconstruct(embeddings)

    def dense() -> None:
        matrix = lower_gram(kernel, grid.nodes)
        matrix *= grid.cell_volume
        np.einsum("ii->i", matrix)[:] += 0.1
        factor, _ = dpotrf(matrix.T, lower=0, overwrite_a=1, clean=0)
        dpotrs(factor, np.asfortranarray(embeddings.T), lower=0)

    ours = float(np.median([seconds(kronecker) for _ in range(5)]))
    theirs = seconds(dense)
    name = f"reconstruction on {side}² nodes, 200 queries"
    return [speedup(name, ours, theirs, f"dense solve on {dense_side**2} nodes", "≥ 100 ×")]


def nystrom(quick: bool) -> list[Row]:
    """Streamed fit of a million rows against its two unavoidable parts; memory; growth."""
    n, m = (100_000, 300) if quick else (1_000_000, 1000)
    solver = kcdo.Nystrom(m, choice="uniform")
    X, Y = regression(n)
    centres = X[:m]

    def limit() -> None:
        total = np.zeros((m, m), order="F")
        buffer = np.empty((solver.chunk_rows, m))
        for start in range(0, n, solver.chunk_rows):
            rows = X[start : start + solver.chunk_rows]
            section = cross_gram(KERNEL_X, rows, centres, out=buffer[: len(rows)])
            total = dsyrk(1.0, section.T, beta=1.0, c=total, lower=1, overwrite_c=1)

    name = f"Nyström, N = {n:,}, p = 8, m = {m} uniform centres, M = {NODES}"
    limit_time = seconds(limit)
    ours = seconds(lambda: model(solver=solver).fit(X, Y))
    limit_time = (limit_time + seconds(limit)) / 2  # before and after: the machine drifts
    rows = [ratio(name, ours, limit_time, "kernel fill N×m + `syrk`", "≤ 1.5 ×")]
    sizes = (20_000, 60_000, 200_000) if quick else (100_000, 300_000, 1_000_000, 3_000_000)
    times, memory = [], []
    for size in sizes:
        data = regression(size)
        times.append(seconds(lambda data=data: model(solver=solver).fit(*data)))
        del data
        memory.append(
            peak_memory(
                f"def setup():\n    return regression({size})\n"
                "def work(data):\n"
                f"    model(solver=kcdo.Nystrom({m}, choice='uniform')).fit(*data)\n"
            )
        )
    at = sizes.index(n) if n in sizes else -1
    rows.append(
        Row(
            "same, memory beyond the data",
            "1 GiB",
            mib(memory[at]),
            mib(2.0**30),
            f"{memory[at] / 2**30:.2f} ×",
            "≤ 1 GiB",
        )
    )
    slope = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
    listed = ", ".join(f"{s:,}" for s in sizes)
    rows.append(
        Row(
            f"growth, N = {listed}",
            "slope in log-log",
            ", ".join(f"{t:.1f} s" for t in times),
            "",
            f"{slope:.2f}",
            "≤ 1.05",
        )
    )
    rows.append(
        Row(
            "same, memory beyond the data",
            "flat",
            ", ".join(mib(b) for b in memory),
            "",
            f"{max(memory) / min(memory):.2f} ×",
            "flat",
        )
    )
    return rows


def summary(quick: bool) -> list[Row]:
    """Streamed predictions against the one matrix product they need."""
    queries, m = (50_000, 300) if quick else (1_000_000, 1000)
    X, Y = regression(20_000)
    fitted = model(solver=kcdo.Nystrom(m, choice="uniform")).fit(X, Y)
    Q, _ = regression(queries, seed=1)
    columns = ["mean", "sd", "q05", "q25", "q50", "q75", "q95"]
    rng = np.random.default_rng(0)
    block = rng.standard_normal((10_000, m))
    matrix = rng.standard_normal((m, NODES))

    def product() -> None:
        for _ in range(queries // len(block)):
            block @ matrix

    ours, theirs = alternate(lambda: fitted.conditional(Q).summary(columns), product, times=1)
    name = f"`summary` of mean, sd, 5 quantiles, {queries:,} queries, m = {m}, M = {NODES}"
    return [ratio(name, ours, theirs, "the matrix product (Q, m)·(m, M)", "≤ 1.8 ×")]


def peers(quick: bool) -> list[Row]:
    """Fit and predicted densities against other packages; those not installed are left out."""
    n = 1000 if quick else 10_000
    X, Y = regression(n)
    Xq, Yq = regression(n, seed=1)

    def ours() -> None:
        model(solver=kcdo.Exact()).fit(X, Y).score_samples(Xq, Yq)

    own = float(np.median([seconds(ours) for _ in range(3)]))
    rows = []
    for name, peer in (
        ("scikit-learn GaussianProcessRegressor, fixed parameters", gaussian_process),
        ("statsmodels KDEMultivariateConditional, fixed bandwidths", conditional_kde),
        ("NGBoost, defaults", ngboost),
        ("conditional flow (flowjax masked autoregressive, 5 layers), defaults", flow),
    ):
        try:
            work, share = peer(X, Y, Xq, Yq)
        except ImportError as error:
            print(f"left out: {name} ({error})", file=sys.stderr)
            continue
        theirs = seconds(work) / share
        note = "" if share == 1 else f" (1/{1 / share:.0f} of the queries, extrapolated)"
        case = f"fit + {n:,} densities, N = {n:,}, p = 8"
        rows.append(speedup(case, own, theirs, name + note, "ahead"))
    return rows


def default(quick: bool) -> list[Row]:
    """The default fit, which chooses everything, against that of NGBoost, and its growth."""
    rows = []
    for n in (200,) if quick else (1000, 10_000):
        X, Y = regression(n)

        def ours(X: np.ndarray = X, Y: np.ndarray = Y) -> None:
            kcdo.ConditionalDensityOperator().fit(X, Y)

        try:
            from ngboost import NGBRegressor
        except ImportError as error:
            print(f"left out: NGBoost ({error})", file=sys.stderr)
            break

        def theirs(X: np.ndarray = X, Y: np.ndarray = Y) -> None:
            NGBRegressor(verbose=False).fit(X, Y)

        own, other = alternate(ours, theirs, times=1)
        case = f"default fit, N = {n:,}, p = 8"
        rows.append(ratio(case, own, other, "fit of NGBoost, defaults", "≤ 1 ×"))
    sizes = [200, 600] if quick else [10_000, 100_000, 1_000_000]
    script = (
        "from benchmarks.speed import *; import resource\n"
        "X, Y = regression({n}); started = time.perf_counter()\n"
        "kcdo.ConditionalDensityOperator().fit(X, Y)\n"
        "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "print(time.perf_counter() - started, peak)"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", script.format(n=n)], capture_output=True, text=True, check=True
        ).stdout.split()[-2:]
        for n in sizes
    ]
    times, peaks = np.array(found, dtype=float).T
    slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    case = "default fit, growth, N = " + ", ".join(f"{n:,}" for n in sizes)
    told = ", ".join(f"{t:.3g} s" for t in times)
    rows.append(Row(case, "slope in log-log", told, "", f"{slope:.2f}", "≤ 1"))
    peak = max(peaks) / 2**30
    told = f"{peak:.1f} GiB"
    rows.append(Row("same, peak memory", "8 GiB", told, "", f"{peak / 8:.2f} ×", "≤ 1 ×"))
    return rows


def gaussian_process(X, Y, Xq, Yq):
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    def work() -> None:
        gp = GaussianProcessRegressor(RBF(3.0) + WhiteKernel(0.1), optimizer=None).fit(X, Y)
        mean, sd = gp.predict(Xq, return_std=True)
        -0.5 * ((Yq - mean) / sd) ** 2 - np.log(sd)

    return work, 1.0


def conditional_kde(X, Y, Xq, Yq):
    from statsmodels.nonparametric.kernel_density import KDEMultivariateConditional

    share = 0.02  # its evaluation is a Python loop over queries

    def work() -> None:
        kde = KDEMultivariateConditional(Y, X, "c", "c" * P, bw=np.full(P + 1, 0.5))
        some = int(len(Xq) * share)
        kde.pdf(Yq[:some], Xq[:some])

    return work, share


def ngboost(X, Y, Xq, Yq):
    from ngboost import NGBRegressor

    def work() -> None:
        NGBRegressor(verbose=False).fit(X, Y).pred_dist(Xq).logpdf(Yq)

    return work, 1.0


def flow(X, Y, Xq, Yq):
    import jax.numpy as jnp
    import jax.random as jr
    from flowjax.distributions import Normal
    from flowjax.flows import masked_autoregressive_flow
    from flowjax.train import fit_to_data

    def work() -> None:
        base = Normal(jnp.zeros(1))
        net = masked_autoregressive_flow(jr.key(0), base_dist=base, cond_dim=P, flow_layers=5)
        data, given = jnp.asarray(Y[:, None]), jnp.asarray(X)
        net, _ = fit_to_data(jr.key(1), net, data=(data, given), show_progress=False)
        np.asarray(net.log_prob(jnp.asarray(Yq[:, None]), jnp.asarray(Xq)))

    return work, 1.0


def mib(n_bytes: float) -> str:
    """Bytes for reading."""
    return f"{n_bytes / 2**20:.0f} MiB"


CASES = {
    "exact": exact,
    "grouped": grouped,
    "grid": grid_2d,
    "nystrom": nystrom,
    "summary": summary,
    "peers": peers,
    "default": default,
}


def table(rows: list[Row]) -> str:
    """The rows as Markdown."""
    columns = ("case", "measured beside it", "kcdo", "beside", "ratio", "to reach")
    head = f"| {' | '.join(columns)} |\n|" + "---|" * len(columns)
    lines = [
        f"| {r.case} | {r.beside} | {r.ours} | {r.theirs} | {r.ratio} | {r.target} |" for r in rows
    ]
    return "\n".join([head, *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the script")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--out", type=Path, help="page whose table is replaced")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.only:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        rows += CASES[name](arguments.quick)
        print(table(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    versions = (
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}, kcdo {kcdo.__version__}; {os.cpu_count()} cores."
    )
    text = f"{table(rows)}\n\n{versions}"
    print(text)
    if arguments.out:
        replace_table(arguments.out, text)


if __name__ == "__main__":
    main()
