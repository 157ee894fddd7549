"""Draw the pictures of docs/report.md again: python -m docs.report_picture, needs Chromium."""

import os
import re
import tempfile
from pathlib import Path

from tests.browser import Browser, find_browser

DOCS = Path(__file__).parent
MOVE = """
{
  const move = (name, value) => {
    const labels = [...document.querySelectorAll("label")];
    const range = labels.find((label) => label.textContent.startsWith(name)).control;
    range.value = value;
    range.dispatchEvent(new Event("input"));
  };
  document.querySelector("#keep").click();
  move("flow", FLOW);
  move("hour", HOUR);
}
"""


def main():
    """Run the example of the page and photograph its report."""
    example = re.search(r"```python\n(.*?)```", (DOCS / "report.md").read_text(), flags=re.DOTALL)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        exec(example[1], {})
        browser = Browser(find_browser(), Path(folder) / "profile")
        script = MOVE.replace("FLOW", "15").replace("HOUR", "4")
        browser.open("report.html", width=1120, height=1760)
        browser.run(script)
        browser.screenshot(DOCS / "images" / "report.png")
        browser.open("report.html", width=390, height=760, dark=True, mobile=True, scale=1.5)
        browser.run(script)
        browser.run("scrollTo(0, 130)")
        browser.screenshot(DOCS / "images" / "report-phone.png")
        browser.close()


if __name__ == "__main__":
    main()
