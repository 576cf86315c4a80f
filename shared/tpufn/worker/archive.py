"""The agent as one file: a zip of this package's modules that any Python 3.8+ runs (`python3 -I agent.pyz launch ...`).

The file is the same, byte for byte, for the same sources; its hash is its version.
"""

import hashlib
import io
import zipfile
from functools import cache
from importlib.resources import files

_MAIN = "import sys\n\nfrom tpufn_worker.agent import main\n\nsys.exit(main(sys.argv[1:]))\n"
_NOT_SENT = frozenset({"archive.py", "startup.py", "__init__.py"})
_EPOCH = (1980, 1, 1, 0, 0, 0)


def modules() -> dict[str, str]:
    """Path inside of the archive -> source."""
    package = files(__package__)
    names = sorted(e.name for e in package.iterdir() if e.name.endswith(".py") and e.name not in _NOT_SENT)
    sources = {f"tpufn_worker/{name}": package.joinpath(name).read_text(encoding="utf-8") for name in names}
    return {"__main__.py": _MAIN, "tpufn_worker/__init__.py": "", **sources}


@cache
def archive() -> bytes:
    """The zip application, without a first line for the shell."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as target:
        for name, source in modules().items():
            target.writestr(zipfile.ZipInfo(name, _EPOCH), source, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


@cache
def version() -> str:
    """The first twelve hexadecimal digits of the archive's SHA-256."""
    return hashlib.sha256(archive()).hexdigest()[:12]
