"""`tpufn package`: what is in an archive and what is not, the lock, Terraform's variables, and an installed package."""

import ast
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tpufn.domain.errors import NotFound
from tpufn.package import VARIABLES, archive, folder, package, variables
from tpufn.spec.deployment import load_deployment

ROOT = Path(__file__).parents[2]
FUNCTIONS = sorted(path.parent.name for path in (ROOT / "functions").glob("*/main.py"))
DEPLOYMENT = """
name: lab
project: my-project
controller_region: europe-west4
firestore_location: eur3
buckets: [gs://b-one, gs://b-two]
writable_prefixes: [results/]
worker_secrets: [wandb-key]
ssh_transport: iap
tpus: [{type: v6e-8, zone: us-east1-d, count: 1}]
"""


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lab") / "deployment.yaml"
    path.write_text(DEPLOYMENT)
    return path


def locked() -> dict[str, tuple[Version, str]]:
    """Name -> version and the text of its hashes."""
    text = (ROOT / "functions" / "requirements.txt").read_text()
    entries = re.findall(r"^([a-z0-9-]+)==(\S+).*\\\n((?:    --hash=\S+(?: \\)?\n)+)", text, re.M)
    assert len(entries) == len(re.findall(r"^[a-z]", text, re.M)), "an entry without hashes"
    return {name: (Version(version), hashes) for name, version, hashes in entries}


def lock_module() -> object:
    spec = importlib.util.spec_from_file_location("lock", ROOT / "functions" / "lock.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_lock_satisfies_the_project() -> None:
    """Every dependency that functions have is in it, in a version that pyproject.toml allows."""
    known, lock = locked(), lock_module()
    for requirement in map(Requirement, lock.needed()):
        version, hashes = known[requirement.name]
        assert version in requirement.specifier, requirement
        assert re.fullmatch(r"(\s*--hash=sha256:[0-9a-f]{64}( \\)?\n)+", hashes)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {lock.name_of(each) for each in project["dependencies"]} >= lock.LEFT_OUT


def test_the_lock_names_no_registry() -> None:
    """Whoever installs says where from."""
    text = (ROOT / "functions" / "requirements.txt").read_text()
    assert not re.search(r"https?:|--(extra-)?index-url|--find-links", text)


def test_an_archive_holds_what_the_buildpack_takes(deployment: Path, tmp_path: Path) -> None:
    """One for each function: main.py, the lock, `tpufn`; nothing of the command line, nothing compiled."""
    written = package(tmp_path / "out", load_deployment(deployment).fleet)
    assert sorted(written.archives) == FUNCTIONS
    for name, path in written.archives.items():
        with zipfile.ZipFile(path) as file:
            names = file.namelist()
            assert file.read("main.py") == (ROOT / "functions" / name / "main.py").read_bytes()
        assert "tpufn/entry.py" in names
        assert {each.partition("/")[0] for each in names} == {"main.py", "requirements.txt", "tpufn"}
        assert not [each for each in names if "__pycache__" in each or "tpufn_cli" in each]


def test_what_is_read_as_a_file_is_in_it() -> None:
    """Every file of the package that is no module is there, too."""
    with zipfile.ZipFile(io.BytesIO(archive(ROOT / "functions/submit/main.py", ROOT / "README.md"))) as file:
        names = set(file.namelist())
    own = ROOT / "shared" / "tpufn"
    kept = {f"tpufn/{p.relative_to(own)}" for p in own.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    assert kept <= names


def test_the_same_sources_make_the_same_archives(deployment: Path, tmp_path: Path) -> None:
    """Whenever and wherever: Terraform would deploy all of it anew otherwise."""
    first, second = (package(tmp_path / n, load_deployment(deployment).fleet).archives for n in ("first", "second"))
    assert {k: v.name for k, v in first.items()} == {k: v.name for k, v in second.items()}
    assert all(re.fullmatch(rf"{name}-[0-9a-f]{{16}}\.zip", path.name) for name, path in first.items())
    assert [p.read_bytes() for p in first.values()] == [p.read_bytes() for p in second.values()]


def test_terraform_knows_the_variables(deployment: Path, tmp_path: Path) -> None:
    """Each is declared, and says what the file says."""
    written = package(tmp_path, load_deployment(deployment).fleet)
    assert written.variables.name == VARIABLES
    found = json.loads(written.variables.read_text())
    declared = set(re.findall(r'^variable "(\w+)"', (ROOT / "terraform" / "variables.tf").read_text(), re.M))
    assert set(found) <= declared
    assert {key: found[key] for key in ("name", "project", "region", "database_location", "ssh_transport")} == {
        "name": "lab",
        "project": "my-project",
        "region": "europe-west4",
        "database_location": "eur3",
        "ssh_transport": "iap",
    }
    assert (found["buckets"], found["writable_prefixes"]) == (["b-one", "b-two"], ["results/"])
    assert all(Path(path).is_absolute() and Path(path).exists() for path in found["archives"].values())


def test_a_file_that_says_little_leaves_terraforms_defaults(tmp_path: Path) -> None:
    """No empty values: a bucket called "" would be one."""
    path = tmp_path / "deployment.yaml"
    path.write_text("name: lab\nproject: my-project\ntpus: [{type: v6e-8, zone: us-east1-d, count: 1}]\n")
    assert "" not in variables(load_deployment(path).fleet, {}).values()


def test_package_imports_no_cloud_library() -> None:
    """It reads files and writes files."""
    code = "import sys, tpufn.package; print([m for m in sys.modules if m in ('grpc', 'google.auth')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment())
    assert ast.literal_eval(done.stdout) == []


@pytest.mark.installs
def test_an_installed_package_has_both_folders(tmp_path: Path) -> None:
    """A wheel has no source tree beside it."""
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), "."]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "site")
    code = (
        "from pathlib import Path; from tpufn.package import folder, archive; f = folder('functions');"
        "print(f, folder('terraform') / 'main.tf', len(archive(f / 'submit/main.py', f / 'requirements.txt')))"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env, cwd="/")
    functions, main, size = done.stdout.split()
    assert Path(functions) == tmp_path / "site" / "tpufn" / "deployed" / "functions"
    assert (Path(main).exists(), sorted(p.parent.name for p in Path(functions).glob("*/main.py"))) == (True, FUNCTIONS)
    assert int(size) == len(archive(ROOT / "functions/submit/main.py", ROOT / "functions/requirements.txt"))


def test_a_broken_installation_says_so() -> None:
    """And how to mend it."""
    with pytest.raises(NotFound, match="pip install"):
        folder("nothing-of-that-name")


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "shared")}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_imports_nothing_heavy_before_its_first_event(function: str) -> None:
    """A cold start waits for main.py. What costs most comes with the first event, as far as that needs it."""
    code = "import sys, main; print(sorted(set(sys.modules)))"
    path = os.pathsep.join([str(ROOT / "shared"), str(ROOT / "functions" / function)])
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    heavy = {"grpc", "google.auth", "paramiko", "pydantic", "yaml", "tpufn.bootstrap", "tpufn.simulation"}
    assert not heavy & set(ast.literal_eval(done.stdout))
