"""All campaigns, whole: ``python -m tests.fuzz`` runs each whatever the others find.

It prints what each printed, one line for each at the end, and fails if one of them did.
"""

import subprocess
import sys
import time

CAMPAIGNS = {
    "fuzz": ["campaign", "--checks", "100000", "--jobs", "2"],
    "model files": ["model_files", "--count", "5000"],
    "lives": ["lives"],
    "designs": ["designs", "--seeds", "5"],
}


def main(campaigns: dict[str, list[str]] = CAMPAIGNS) -> int:
    """Run all campaigns and print a summary."""
    lines = []
    for name, (module, *options) in campaigns.items():
        started = time.monotonic()
        code = subprocess.call([sys.executable, "-m", f"tests.fuzz.{module}", *options])
        minutes = (time.monotonic() - started) / 60
        lines.append(f"{name}: {'failed' if code else 'passed'} after {minutes:.0f} minutes")
        print(lines[-1], flush=True)
    print("", "All campaigns:", *lines, sep="\n")
    return int(any("failed" in line for line in lines))


if __name__ == "__main__":
    sys.exit(main())
