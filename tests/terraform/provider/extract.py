"""Recovers the schemas of hashicorp/google's resources from its generated bindings, and writes `schema.json`.

    pip download --no-deps cdktn-provider-google==21.1.0
    python extract.py cdktn_provider_google-21.1.0-py3-none-any.whl

The bindings are generated from the provider's own schema, so they hold it: in TypeScript the names, types, whether an
argument is required and which values it takes; in JavaScript which arguments are blocks, and which attributes only the
provider sets. What cannot be told apart is an optional argument that the provider fills when it is left out; a few such
names are known. Only what `terraform/` uses is kept. Run it again after a change of the version or of the resources.
"""

import io
import json
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Block = dict[str, Any]

HERE = Path(__file__).parent
TERRAFORM = HERE.parents[2] / "terraform"

_STORAGE = {
    "string": "string",
    "number": "number",
    "boolean": "bool",
    "stringList": ["list", "string"],
    "numberList": ["list", "number"],
    "booleanList": ["list", "bool"],
    "stringMap": ["map", "string"],
    "numberMap": ["map", "number"],
    "booleanMap": ["map", "bool"],
    "anyMap": ["map", "dynamic"],
}
"""How the bindings name an argument's type, and Terraform's own notation of it."""

_GETTER = {
    "String": "string",
    "Number": "number",
    "Boolean": "bool",
    "List": ["list", "string"],
    "NumberList": ["list", "number"],
    "StringMap": ["map", "string"],
    "NumberMap": ["map", "number"],
    "BooleanMap": ["map", "bool"],
    "AnyMap": ["map", "dynamic"],
}
"""The same for attributes that are only read: `getStringAttribute('self_link')`."""

_FILLED_IN = frozenset({"id", "project", "region", "zone", "location"})
"""Arguments of a resource that the provider fills when they are left out."""

_INTERFACE = re.compile(r"export interface (\w+)(?: extends [\w.]+)? \{\n(.*?)\n\}", re.S)
_PROPERTY = re.compile(r"/\*\*(.*?)\*/\s*readonly (\w+)(\??): (.*?);\n(?=\s*(?:/\*\*|$))", re.S)
_CLASS = re.compile(r"^class (\w+) extends cdkt\w\.(\w+) \{\n(.*?)^\}", re.S | re.M)
_TO_HCL = re.compile(r"^function (\w+)ToHclTerraform\(struct\) \{(.*?)^\}", re.S | re.M)
_TOP = re.compile(r"synthesizeHclAttributes\(\) \{(.*?)^    \}", re.S | re.M)
_ARGUMENT = re.compile(
    r'^\s+"?(\w+)"?: \{\s+value: .*?isBlock: (\w+),\s+type: "(\w+)",\s+storageClassType: "([\w.]+)"', re.S | re.M
)
_NESTED = re.compile(r'this\._(\w+) = new (?:cdkt\w\.)?(\w+)\(this, "(\w+)"')
_READ = re.compile(r"^    get (\w+)\(\) \{\n\s+return (.*?);\n    \}", re.S | re.M)
_VALUES = re.compile(r"[Pp]ossible values: \[(.*?)\]")


class Bindings:
    """One resource's two files, taken apart."""

    def __init__(self, javascript: str, typescript: str) -> None:
        self._interfaces = {m[1]: _properties(m[2]) for m in _INTERFACE.finditer(typescript)}
        self._classes = {m[1]: (m[2], m[3]) for m in _CLASS.finditer(javascript)}
        self._nested = {m[1].lower(): _arguments(m[2]) for m in _TO_HCL.finditer(javascript)}
        top = _TOP.search(javascript)
        self._top = _arguments(top[1]) if top else {}

    def schema(self) -> Block:
        main = next(name for name, (base, _) in self._classes.items() if base.startswith("Terraform"))
        block = self._block(f"{main}Config", self._top, main)
        for name in _FILLED_IN & block["attributes"].keys():
            block["attributes"][name]["computed"] = True
        block["attributes"].setdefault("id", {"type": "string", "optional": True, "computed": True})
        return block

    def _block(self, interface: str, arguments: dict[str, tuple[bool, str, str]], owner: str) -> Block:
        properties = self._interfaces.get(interface, {})
        attributes: Block = {}
        blocks: Block = {}
        for name, (is_block, kind, storage) in arguments.items():
            required, type, text = properties.get(name, (False, "", ""))
            if is_block:
                blocks[name] = self._nested_block(kind, storage, required=required, many="[]" in type)
            else:
                attributes[name] = _argument(kind, storage, text, required=required)
        for name, type_ in self._computed(owner).items():
            if name not in attributes and name not in blocks:
                attributes[name] = {"type": type_, "computed": True}
        return {"attributes": attributes} | ({"blocks": blocks} if blocks else {})

    def _nested_block(self, kind: str, storage: str, *, required: bool, many: bool) -> Block:
        single = kind == "struct" and "Timeouts" in storage
        name = storage.removesuffix("List") if kind in ("list", "set", "map") else storage
        inner = self._block(name, self._nested.get(name.lower(), {}), f"{name}OutputReference")
        limits = {} if single else ({"min": 1} if required else {}) | ({} if many else {"max": 1})
        return {"nesting": "single" if single else "set" if kind == "set" else "list", **limits, "block": inner}

    def _computed(self, owner: str) -> dict[str, Any]:
        """The attributes of a class that can be read and not be set."""
        if owner not in self._classes:
            return {}
        body = self._classes[owner][1]
        settable = set(re.findall(r"^\s+set (\w+)\(", body, re.M))
        settable |= {name[0].lower() + name[1:] for name in re.findall(r"^\s+put(\w+)\(", body, re.M)}
        members = {m[1]: (m[2], m[3]) for m in _NESTED.finditer(body)}
        found: dict[str, Any] = {}
        for name, expression in _READ.findall(body):
            if name not in settable and not name.endswith("Input") and name != "internalValue":
                found.update(self._attribute(name, expression, members))
        return found

    def _attribute(self, name: str, expression: str, members: dict[str, tuple[str, str]]) -> Iterator[tuple[str, Any]]:
        plain = re.search(r"get(\w+?)Attribute\('(\w+)'\)", expression)
        if plain and plain[1] in _GETTER:
            type = _GETTER[plain[1]]
            yield plain[2], ["set", type[1]] if "Fn.tolist" in expression and isinstance(type, list) else type
        elif re.fullmatch(r"this\._\w+", expression) and name in members:
            class_name, terraform_name = members[name]
            if class_name in _GETTER:
                yield terraform_name, _GETTER[class_name]
            elif class_name.endswith(("List", "OutputReference")):
                inner = re.sub(r"(List|OutputReference)$", "", class_name) + "OutputReference"
                yield terraform_name, ["list", ["object", self._computed(inner)]]


def _properties(body: str) -> dict[str, tuple[bool, str, str]]:
    """Argument -> (required, TypeScript type, documentation)."""
    found = {}
    for text, name, optional, type in _PROPERTY.findall(body + "\n"):
        terraform_name = re.search(r"#(\w+) \w+#\w+\}", text)
        found[terraform_name[1] if terraform_name else name] = (not optional, " ".join(type.split()), text)
    return found


def _arguments(body: str) -> dict[str, tuple[bool, str, str]]:
    """Argument -> (is a block, kind, storage class)."""
    return {name: (is_block == "true", kind, storage) for name, is_block, kind, storage in _ARGUMENT.findall(body)}


def _argument(kind: str, storage: str, text: str, *, required: bool) -> Block:
    type: Any = _STORAGE.get(storage, "dynamic")
    if kind == "set" and isinstance(type, list):
        type = ["set", type[1]]
    values = _VALUES.search(re.sub(r"\s*\n\s*\*\s?", " ", text))
    allowed = re.findall(r'"([^"]*)"', values[1]) if values else []
    return {"type": type, "required" if required else "optional": True} | ({"values": allowed} if allowed else {})


def used(root: Path) -> tuple[set[str], set[str]]:
    """The types of resources and of data sources that the configuration below `root` names."""
    text = "\n".join(path.read_text() for path in root.rglob("*.tf"))
    return set(re.findall(r'^resource "(\w+)"', text, re.M)), set(re.findall(r'^data "(\w+)"', text, re.M))


def extract(wheel: Path, root: Path) -> Block:
    """The schema of what is used below `root`, with where it came from."""
    resources, data = used(root)
    folders = {name: _folder(name) for name in resources} | {
        f"data {name}": f"data-google-{_folder(name)}" for name in data
    }
    files = _files(wheel, {"provider", *folders.values()})

    def schema(folder: str) -> Block:
        return Bindings(files[f"{folder}/index.js"], files[f"{folder}/index.d.ts"]).schema()

    version = re.search(r"hashicorp/google/([\d.]+)/", files["provider/index.d.ts"])
    assert version, "the bindings name their provider's version in every link"
    return {
        "source": {"package": wheel.name, "license": "MPL-2.0", "provider": "hashicorp/google", "version": version[1]},
        "provider": _without_endpoints(schema("provider")),
        "resources": {name: schema(folders[name]) for name in sorted(resources)},
        "data": {name: schema(folders[f"data {name}"]) for name in sorted(data)},
    }


def _without_endpoints(provider: Block) -> Block:
    """The provider's own arguments, but for the address of each of Google's APIs."""
    kept = {name: a for name, a in provider["attributes"].items() if not name.endswith("_endpoint") and name != "id"}
    return {**provider, "attributes": kept}


def _folder(resource: str) -> str:
    return resource.removeprefix("google_").replace("_", "-")


def _files(wheel: Path, folders: set[str]) -> dict[str, str]:
    """The bindings in these folders, in one pass over the npm package inside the wheel."""
    wanted = {f"package/lib/{folder}/index.{kind}" for folder in folders for kind in ("js", "d.ts")}
    found: dict[str, str] = {}
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(archive.read(name)), mode="r|gz") as package:
            for member in package:
                if member.name in wanted and (file := package.extractfile(member)) is not None:
                    found[member.name.removeprefix("package/lib/")] = file.read().decode()
    return found


def written(schema: Block) -> str:
    """JSON with one resource a line, so that a change of version shows which resources it changed."""

    def compact(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"), sort_keys=True)

    def table(values: Block) -> str:
        rows = ",\n".join(f'    "{name}": {compact(value)}' for name, value in values.items())
        return f"{{\n{rows}\n  }}"

    parts = {
        "source": json.dumps(schema["source"]),
        "provider": compact(schema["provider"]),
        "resources": table(schema["resources"]),
        "data": table(schema["data"]),
    }
    return "{\n" + ",\n".join(f'  "{name}": {text}' for name, text in parts.items()) + "\n}\n"


if __name__ == "__main__":
    (HERE.parent / "schema.json").write_text(written(extract(Path(sys.argv[1]), TERRAFORM)))
