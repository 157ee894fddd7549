"""The README as the page of a package index, which has no other files: its links become absolute.

The address of the repository is KCDO_REPOSITORY, or that of the workflow that builds the package;
links then lead to the files of this version there. Without an address they stay as they are.
"""

import os
import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)")


class PackagePage(MetadataHookInterface):
    """Gives the README to the build; hatchling calls it."""

    def update(self, metadata: dict) -> None:
        """Set the readme of the project's metadata."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        version = Path(self.root, "src/kcdo/_version.py").read_text(encoding="utf-8")
        release = re.search(r'"([\d.]+\w*)"', version)
        assert release is not None, version
        address = repository(os.environ)
        if address is not None:
            text = package_page(text, address, f"v{release[1]}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def repository(environment: "os._Environ[str] | dict[str, str]") -> str | None:
    """Return the address of the repository, None where nothing says it."""
    if environment.get("KCDO_REPOSITORY"):
        return environment["KCDO_REPOSITORY"].rstrip("/")
    if environment.get("GITHUB_SERVER_URL") and environment.get("GITHUB_REPOSITORY"):
        return f"{environment['GITHUB_SERVER_URL']}/{environment['GITHUB_REPOSITORY']}"
    return None


def package_page(text: str, address: str, tag: str) -> str:
    """Return a text whose links to files lead to the repository at a tag; pictures as such."""

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link[1] else "blob"
        return f"{link[1]}[{link[2]}]({address}/{kind}/{tag}/{link[3]})"

    return _LINK.sub(absolute, text)
