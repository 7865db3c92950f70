"""Debian's chromium without a window, driven by selenium: no network, and pages may not run scripts."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

INSTALL = "apt-get install chromium chromium-driver"
_SWITCHES = (
    "--headless=new",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",  # 64 MB in a container; chromium then uses files
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--window-size=1200,900",
)
_READ_TOKENS = """\
return [...document.querySelectorAll(arguments[0])].map(element => {
  const style = getComputedStyle(element), box = element.getBoundingClientRect();
  return {
    kind: element.className, text: element.textContent, color: style.color, weight: style.fontWeight,
    line: style.textDecorationLine, slant: style.fontStyle,
    shown: style.visibility === "visible" && box.width > 0 && box.height > 0,
  };
});
"""
_READ_TAGS = "return [...document.querySelectorAll('*')].map(element => element.tagName.toLowerCase())"


class Browser:
    """One chromium. What its pages ask for and complain about is kept until ``requests`` and ``complaints``
    are read.

    Args:
        profile: an empty folder for its profile.
    """

    def __init__(self, profile: Path) -> None:
        chromium, driver = (shutil.which(name) for name in ("chromium", "chromedriver"))
        if chromium is None or driver is None:
            pytest.fail(f"chromium or its driver is missing: {INSTALL}", pytrace=False)
        options = ChromeOptions()
        options.binary_location = chromium
        for switch in (*_SWITCHES, f"--user-data-dir={profile}"):
            options.add_argument(switch)
        if os.geteuid() == 0:
            options.add_argument("--no-sandbox")  # chromium's sandbox refuses to start for root
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        # With the path of the driver selenium looks for none, and so asks no server for one.
        self._driver = Chrome(options, ChromeService(driver))
        self._driver.set_page_load_timeout(20)
        self._command("Emulation.setScriptExecutionDisabled", value=True)
        self._command("Network.enable")
        offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        self._command("Network.emulateNetworkConditions", **offline)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._driver.quit()

    def open(self, page: Path) -> None:
        """Load a file and forget what was asked for before."""
        self.requests()
        self.complaints()
        self._driver.get(page.as_uri())

    def scheme(self, name: str) -> None:
        """Prefer colours that are "light" or "dark"."""
        self._command(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}]
        )

    def requests(self) -> list[str]:
        """Addresses that were asked for."""
        entries = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        sent = (entry["params"] for entry in entries if entry["method"] == "Network.requestWillBeSent")
        return [params["request"]["url"] for params in sent]

    def complaints(self) -> list[str]:
        """What the console says."""
        return [entry["message"] for entry in self._log("browser")]

    def styled(self, selector: str) -> list[dict[str, Any]]:
        """Class, text and computed look of the elements of a selector, in their order."""
        return list(self._run(_READ_TOKENS, selector))

    def style(self, selector: str, name: str) -> str:
        """A computed property of the first element of a selector."""
        return str(
            self._run(f"return getComputedStyle(document.querySelector(arguments[0])).{name}", selector)
        )

    def tags(self) -> list[str]:
        """The names of all elements, in their order."""
        return list(self._run(_READ_TAGS))

    @property
    def title(self) -> str:
        return str(self._driver.title)

    def _run(self, script: str, *values: str) -> Any:
        """Run a script of ours: it looks from outside, the page's own stay off."""
        return self._driver.execute_script(script, *values)

    def _command(self, name: str, **values: Any) -> None:
        self._driver.execute_cdp_cmd(name, values)

    def _log(self, name: str) -> list[Mapping[str, Any]]:
        return list(self._driver.get_log(name))  # type: ignore[no-untyped-call]
