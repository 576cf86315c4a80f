"""Makes the README's picture of the terminal UI, as SVG, from a made-up fleet.

python tests/pictures/tui.py .github/tui.svg [--view jobs] [--size 140x36] [--light] [--press i]
"""

import argparse
import asyncio
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "shared"), str(ROOT / "cli"), str(ROOT / "tests" / "tui")]

import fakes

from tpufn_cli.console.site import Site
from tpufn_cli.tui.app import ConsoleApp

LATENCIES = {"europe-west4": 18, "us-east5": 104, "us-east1": 97, "us-west4": 151, "us-central2": 121}


async def picture(arguments: argparse.Namespace) -> str:
    width, height = map(int, arguments.size.split("x"))
    client = fakes.busy_afternoon()
    with tempfile.TemporaryDirectory() as home:
        site = Site(client, home=Path(home), base=Path(home), environment={"TPUFN_CONFIG": "/nonexistent"})
        site.memory.set_theme("tpufn-light" if arguments.light else "tpufn-dark")
        site.memory.set_stars(("spot-v6e16-ue1d-3", "spot-v6e64-ew4a-4"))
        app = ConsoleApp(site, now=lambda: fakes.T0, measures=False)
        app.figures = {region: float(ms) for region, ms in LATENCIES.items()}
        async with app.run_test(size=(width, height)) as pilot:
            await pilot.press({"slots": "1", "jobs": "2", "pools": "3"}[arguments.view])
            while not (app.slots and app.status and app.fleet.name):
                await pilot.pause(0.01)
            await pilot.press("down", *arguments.press)
            for _ in range(10):
                app.look()
                await pilot.pause(0.05)
            return app.export_screenshot(title="tpufn tui")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("target", type=Path)
    parser.add_argument("--view", default="slots")
    parser.add_argument("--size", default="140x34")
    parser.add_argument("--light", action="store_true")
    parser.add_argument("--press", nargs="*", default=[])
    arguments = parser.parse_args()
    svg = asyncio.run(picture(arguments))
    arguments.target.parent.mkdir(exist_ok=True)
    arguments.target.write_text(re.sub(r"@font-face \{.*?\}\n", "", svg, flags=re.DOTALL))  # the reader's own monospace


if __name__ == "__main__":
    main()
