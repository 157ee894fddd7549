"""Runs the command line as its users do, as a process, on files; but fits search less."""

import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

from kcdo.commands import run

import_module("kcdo.serve.command")  # adds its command, as kcdo.cli does

KCDO = (sys.executable, str(Path(__file__).with_name("short_kcdo.py")))


def start(*arguments, covered=True, **options):
    """Start a command; coverage, which makes it slower by half, can be left out."""
    command = [*KCDO, *(str(a) for a in arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = os.environ | {"COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    if not covered:
        environment = {k: v for k, v in environment.items() if not k.startswith("COV")}
    return subprocess.Popen(
        command, text=True, encoding="utf-8", env=environment, **pipes | options
    )


def finish(process, timeout=120):
    out, err = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def kcdo(*arguments, **options):
    """Run a command and return what it said."""
    return finish(start(*arguments, **options))


def succeed(*arguments, **options):
    """Run a command that must work and return its standard output."""
    result = kcdo(*arguments, **options)
    assert result.returncode == 0, result.stderr
    return result.stdout


def succeed_together(commands):
    """Run commands at the same time, which must work; return their standard outputs."""
    results = list(map(finish, [start(*arguments) for arguments in commands]))
    for result in results:
        assert result.returncode == 0, result.stderr
    return [result.stdout for result in results]


def succeed_here(*arguments, capsys=None):
    """Do the same within this process, which spares the time of starting another."""
    code = run([str(a) for a in arguments])
    out, err = capsys.readouterr() if capsys else ("", "")
    assert code == 0, err
    return out


def fail_together(cases):
    """Run commands at the same time; each must say one line of error, with the code and parts.

    ``cases`` holds (arguments, exit code, parts of the message).
    """
    processes = [start(*arguments) for arguments, _, _ in cases]
    for process, (_, code, parts) in zip(processes, cases, strict=True):
        result = finish(process)
        check_error((result.returncode, result.stdout, result.stderr), code, parts)


def fail_here(capsys, cases):
    """Do the same within this process, which spares the time of starting others."""
    for arguments, code, parts in cases:
        returned = run([str(a) for a in arguments])
        check_error((returned, *capsys.readouterr()), code, parts)


def check_error(ending, code, parts):
    returned, out, err = ending
    assert (returned, out) == (code, ""), err
    lines = err.splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("Error: "), lines
    for part in parts:
        assert part in lines[0], (part, lines[0])


def wait_until(happened, seconds=60):
    """Wait for a process to do something that can be seen."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
