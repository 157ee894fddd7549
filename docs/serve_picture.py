"""Draw the picture of the live page again: python -m docs.serve_picture, needs Chromium."""

import tempfile
from pathlib import Path

from kcdo.commands.fitting import FitOptions, fitted
from kcdo.commands.naming import Wanted
from tests.browser import Browser, find_browser
from tests.serving import served
from tests.traffic import traffic

DOCS = Path(__file__).parent


def main():
    """Fit the traffic of docs/command-line.md, and move the inputs of its page."""
    table = traffic(2000, 0).astype({"weather": "category"})
    wanted = Wanted(["speed"], ["flow", "hour", "weather"], periods={"hour": 24.0})
    model = fitted(table, wanted, FitOptions("heuristic", None, 0, verbose=False))
    model.remember(table, ["traffic.csv"], (0, ""), 0, 0)
    with served(model.saved, "traffic.kcdo") as client, tempfile.TemporaryDirectory() as profile:
        browser = Browser(find_browser(), profile)
        browser.open(client.url, width=1100, height=700)
        for name, value in (("#slider-0", 1500), ("#input-1", 17), ("#keep", None), ("#sd-0", 300)):
            browser.wait_for("asking === null && shown !== null")
            act = "e.click()" if value is None else f"e.value = {value}"
            script = f"const e = document.querySelector('{name}'); {act};"
            browser.run(f"(() => {{ {script} e.dispatchEvent(new Event('input')); }})()")
        browser.wait_for("asking === null")
        browser.screenshot(DOCS / "images" / "serve.png")
        browser.close()


if __name__ == "__main__":
    main()
