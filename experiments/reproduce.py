"""All experiments of the paper from one place; ``kcdo reproduce`` is a thin layer over this.

    python -m experiments.reproduce kcdo-reproduction docs/reproduction.md

puts the tables of a finished run into the documentation page, and its figures beside it.
"""

import argparse
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path

from threadpoolctl import threadpool_limits

from experiments.orderings import orderings
from experiments.pages import replace_table
from experiments.runner import Options, Record, Results, Task, carry_out, run_task
from experiments.studies import STUDIES
from kcdo.errors import DataNotFoundError, InvalidInputError, KcdoError

NAMES = (*STUDIES, "all")
PICTURES = {  # of a run, and what they are called in the documentation
    "donut/cross_sections_tilt_y": "donut-cross-sections",
    "donut/errors_tilt_x": "donut-errors-authors",
    "donut/errors_tilt_y": "donut-errors-text",
    "terrain/maps": "terrain-maps",
    "traffic/caltrans_sensor_861": "traffic-caltrans-861",
    "embeddings/densities": "embeddings-densities",
    "embeddings/herding": "embeddings-herding",
}
_WIDTH = 1400  # pixels of a figure in the documentation


def reproduce(
    name: str, options: Options, out: Path, say: Callable[[str], None], jobs: int = 1
) -> dict[str, Results]:
    """Run one experiment, or all that the data at hand allow; return the results of each."""
    if name not in NAMES:
        raise InvalidInputError(f"no experiment {name!r}; there are {', '.join(NAMES)}.")
    found = {}
    with _processes(jobs) as pool:
        for each in STUDIES if name == "all" else [name]:
            folder = (out / each).resolve()
            run_all = partial(in_processes, pool, each, options, folder) if pool else None
            try:
                found[each] = carry_out(STUDIES[each], options, folder, say, run_all)
            except DataNotFoundError as error:
                if name != "all":
                    raise
                say(f"{each}: left out: {error}")
    return found


@contextmanager
def _processes(jobs: int) -> Iterator[ProcessPoolExecutor | None]:
    """Processes for all experiments, as each takes seconds to start; None if one is enough."""
    if jobs == 1:
        yield None
        return
    threads = max(1, (os.cpu_count() or 1) // jobs)
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _limit_threads, (threads,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def in_processes(
    pool: ProcessPoolExecutor, name: str, options: Options, folder: Path, tasks: list[Task]
) -> Iterator[Record]:
    """Run tasks in several processes and yield their records as they come."""
    try:
        futures = [pool.submit(_run_by_key, name, options, folder, task.key) for task in tasks]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool as error:
        raise KcdoError(
            "a process of the experiments was ended from outside, perhaps for lack of memory: "
            "run again to go on where it was, or with --jobs 1."
        ) from error


def _limit_threads(threads: int) -> None:
    threadpool_limits(threads)


def _run_by_key(name: str, options: Options, folder: Path, key: str) -> Record:
    return run_task(name, _tasks(name, options)[key], folder)


@lru_cache(maxsize=1)
def _tasks(name: str, options: Options) -> dict[str, Task]:
    return {task.key: task for task in STUDIES[name].tasks(options)}


def document(results: Path, page: Path) -> None:
    """Put the tables between the marks of the page, and small figures into ``images``."""
    for name in STUDIES:
        table = results / name / "table.md"
        if table.exists():
            replace_table(page, table.read_text(), name)
    replace_table(page, orderings(results), "orderings")
    for picture, name in PICTURES.items():
        source = results / f"{picture}.png"
        if source.exists():
            _shrink(source, page.parent / "images" / f"{name}.png")


def _shrink(source: Path, target: Path) -> None:
    from PIL import Image  # comes with matplotlib, which drew the source

    with Image.open(source) as image:
        width = min(image.width, _WIDTH)
        small = image.convert("RGB").resize((width, round(image.height * width / image.width)))
        small.quantize(128).save(target, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="folder that kcdo reproduce wrote")
    parser.add_argument("page", type=Path, help="page with marks for the tables")
    arguments = parser.parse_args()
    document(arguments.results, arguments.page)


if __name__ == "__main__":
    main()
