"""Run the tests of every folder of tests/ecosystem in a virtual environment of its own.

    python .ci/ecosystem.py            # all
    python .ci/ecosystem.py skpro rail # some

A folder is named like an extra of pyproject.toml: its environment has kcdo with that extra, and
the packages that the tests run with. So a new extra needs a folder with tests, and nothing here.
An extra that cannot be installed is listed with the sentence of pip; a test that fails, or that
is skipped for want of a package, fails the run.
"""

import argparse
import os
import re
import subprocess
import sys
import time
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests/ecosystem"
HOME = ROOT / ".venv-ecosystem"
COVERAGE = f"--rcfile={ROOT / '.ci/ecosystem-coverage.ini'}"


def main() -> int:
    """Test the extras that are named, or all; return 1 where a test fails or is skipped."""
    every = sorted(folder.name for folder in TESTS.iterdir() if list(folder.glob("test_*.py")))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("extras", nargs="*", choices=[*every, []], help="all by default")
    chosen = parser.parse_args().extras or every
    HOME.mkdir(exist_ok=True)
    for old in HOME.glob(".coverage*"):
        old.unlink()
    with ThreadPoolExecutor(2) as pool:  # pip mostly waits for disk and network
        refusals = list(pool.map(install, chosen))
    results = {extra: run(extra, why) for extra, why in zip(chosen, refusals, strict=True)}
    print("\n=== ecosystem ===")
    for extra, (result, _) in results.items():
        print(f"{extra:10} {result}")
    good = [passed for _, passed in results.values()]
    if chosen == every and all(passed is True for passed in good):
        good.append(covered(every[0]))
    return int(False in good)


def run(extra: str, refusal: str | None) -> tuple[str, bool | None]:
    """Run the tests of an extra: what came of it, and None where it could not be installed."""
    if refusal is not None:
        return f"not installed: {refusal}", None
    print(f"\n=== {extra} ===", flush=True)
    started = time.monotonic()
    report = HOME / f"{extra}.xml"
    done = call(
        *(extra, "-m", "coverage", "run", COVERAGE, f"--data-file={HOME / '.coverage'}.{extra}"),
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"),
        *(f"tests/ecosystem/{extra}", *adapters(extra)),
    )
    counts, missing = {name: 0 for name in ("tests", "failures", "errors", "skipped")}, 0
    if report.exists():
        for suite in ElementTree.parse(report).iter("testsuite"):
            counts = {name: counts[name] + int(suite.get(name, 0)) for name in counts}
            reasons = [skip.get("message", "") for skip in suite.iter("skipped")]
            missing += sum("needs the extra" in reason for reason in reasons)
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    return f"{told} ({time.monotonic() - started:.0f} s)", done == 0 and missing == 0


def install(extra: str) -> str | None:
    """Make the environment of an extra; return the sentence of pip where that fails."""
    if not python(extra).exists():
        venv.create(HOME / extra, with_pip=True)
    command = [python(extra), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, "--editable", f".[{extra},ecosystem]"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return None
    sentences = re.findall(r"^ERROR: (.*)$", done.stderr, flags=re.MULTILINE)
    return sentences[-1] if sentences else done.stderr.strip()[-300:]


def adapters(extra: str) -> list[str]:
    """Return the adapter modules whose doctests belong to an extra."""
    names = {"rail": ["qp", "rail"]}.get(extra, [extra])
    paths = [f"src/kcdo/adapters/{name}.py" for name in names]
    return [path for path in paths if (ROOT / path).exists()]


def covered(extra: str) -> bool:
    """Whether all tests together cover the adapters."""
    data = f"--data-file={HOME / '.coverage'}"
    call(extra, "-m", "coverage", "combine", COVERAGE, data, str(HOME))
    return call(extra, "-m", "coverage", "report", COVERAGE, data) == 0


def call(extra: str, *arguments: str) -> int:
    """Run the Python of an extra; return its exit status."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    command = [python(extra), *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def python(extra: str) -> Path:
    """Return the interpreter of an extra's environment."""
    folder = HOME / extra
    return folder / "Scripts/python.exe" if sys.platform == "win32" else folder / "bin/python"


if __name__ == "__main__":
    sys.exit(main())
