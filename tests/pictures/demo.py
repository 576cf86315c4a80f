"""Makes the README's picture: the demo as a terminal shows it, as SVG.

python tests/pictures/demo.py .github/demo.svg
"""

import re
import sys
import tempfile
from importlib.resources import as_file, files
from io import StringIO
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "shared"), str(ROOT / "cli")]

from rich.console import Console

from tpufn.client import open_engine
from tpufn_cli.flow.closing import closing
from tpufn_cli.flow.director import Director
from tpufn_cli.flow.live import LiveTeller
from tpufn_cli.flow.run import Run
from tpufn_cli.flow.story import Story

WIDTH = 112
SEED = 1


def main(target: Path) -> None:
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True, color_system="truecolor")
    console.print("[bold]$[/] tpufn demo")
    with (
        tempfile.TemporaryDirectory() as home,
        as_file(files("tpufn_cli") / "examples" / "demo") as folder,
    ):
        deployment = str(folder / "deployment.yaml")
        engine = open_engine(home=home, deployment=deployment, sandbox=True, seed=SEED, fresh=True)
        story = Story(engine.client.fleet())
        with LiveTeller(story, console, title="job.yaml", standing=False) as live:
            ending = Run(engine, story, (live, Director(engine))).to_end(str(folder / "job.yaml"))
        console.print(closing(ending, engine.client.fleet()))
    target.parent.mkdir(exist_ok=True)
    picture = console.export_svg(title="tpufn demo").replace(str(folder), "demo")
    target.write_text(re.sub(r"@font-face \{.*?\}\n", "", picture, flags=re.DOTALL))  # the reader's own monospace


if __name__ == "__main__":
    main(Path(sys.argv[1]))
