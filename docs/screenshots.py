"""Pictures of the page for the documents. In: the simulated fleet. Out: docs/images/page-*.png.

    pip install -e '.[browser]'; apt-get install chromium
    python -m docs.screenshots

The large fleet, half an hour into the busiest hour: drafts are no longer accepted, and a worker has leaked for hours.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from agent.demo import story
from tests.browser.fleets import Happening, played
from tests.browser.serving import served

IMAGES = Path(__file__).with_name("images")
MOST_BYTES = 200_000
HAPPENINGS = (Happening("leak", 8.0, {"bytes_per_hour": 6e9}), Happening("mtp-collapse", 0.15, {}))
MARGIN_PIXELS = 16
LOOKS: dict[str, tuple[dict[str, Any], str]] = {
    # name: (the browser's options, the element that the picture ends with)
    "page-light": ({"viewport": {"width": 1240, "height": 1000}, "color_scheme": "light"}, "#flow"),
    "page-dark": ({"viewport": {"width": 1240, "height": 1000}, "color_scheme": "dark"}, "#flow"),
    "page-phone": ({"viewport": {"width": 360, "height": 740}, "device_scale_factor": 1.5}, "#flow .box >> nth=0"),
}


def main() -> None:
    """Plays the fleet, and writes each picture with its size."""
    live = played(story(), HAPPENINGS, busy_hours=0.45, quiet_hours=9.0)
    IMAGES.mkdir(exist_ok=True)
    with served(live) as found, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, (options, last) in LOOKS.items():
            page = browser.new_context(**options).new_page()
            page.goto(found.address)
            box = page.locator(last).bounding_box()
            if box is None:
                raise SystemExit(f"{name}: the page has no {last}")
            height = box["y"] + box["height"] + MARGIN_PIXELS
            width = options["viewport"]["width"]
            path = IMAGES / f"{name}.png"
            page.screenshot(path=path, full_page=True, clip={"x": 0, "y": 0, "width": width, "height": height})
            size = path.stat().st_size
            sys.stdout.write(f"{path.name}: {size / 1000:.0f} kB\n")
            if size > MOST_BYTES:
                raise SystemExit(f"{path}: more than {MOST_BYTES / 1000:.0f} kB")
        browser.close()


if __name__ == "__main__":
    main()
