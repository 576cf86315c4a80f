"""The messages of Terraform's plugin protocol, version 5, as far as they are used here.

A line is a message, `*` is repeated, the numbers are the protocol's own (`tfplugin5.proto`, published with Terraform).
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _FIELD.TYPE_STRING,
    "bytes": _FIELD.TYPE_BYTES,
    "int": _FIELD.TYPE_INT64,
    "bool": _FIELD.TYPE_BOOL,
}

_MESSAGES = """
Empty
Value              bytes msgpack=1
RawState           bytes json=1
Diagnostic         int severity=1, string summary=2, string detail=3
Attribute          string name=1, bytes type=2, bool required=4, bool optional=5, bool computed=6
NestedBlock        string type_name=1, Block block=2, int nesting=3, int min_items=4, int max_items=5
Block              int version=1, *Attribute attributes=2, *NestedBlock block_types=3
Schema             int version=1, Block block=2
Named              string key=1, Schema value=2
SchemaAnswer       Schema provider=1, *Named resource_schemas=2, *Named data_source_schemas=3
ConfigRequest      Value config=1
ConfigureRequest   string terraform_version=1, Value config=2
PrepareAnswer      Value prepared_config=1, *Diagnostic diagnostics=2
TypedRequest       string type_name=1, Value config=2
Diagnostics        *Diagnostic diagnostics=1
UpgradeRequest     string type_name=1, int version=2, RawState raw_state=3
UpgradeAnswer      Value upgraded_state=1, *Diagnostic diagnostics=2
ReadRequest        string type_name=1, Value current_state=2
ReadAnswer         Value new_state=1, *Diagnostic diagnostics=2
PlanRequest        string type_name=1, Value prior_state=2, Value proposed_new_state=3, Value config=4
PlanAnswer         Value planned_state=1, *Diagnostic diagnostics=4, bool legacy_type_system=5
DataAnswer         Value state=1, *Diagnostic diagnostics=2
ApplyAnswer        Value new_state=1, *Diagnostic diagnostics=3
HealthAnswer       int status=1
"""


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="tfplugin5.proto", package="tf", syntax="proto3")
    for line in _MESSAGES.strip().splitlines():
        name, _, fields = line.partition(" ")
        message = file.message_type.add(name=name)
        for field in filter(None, fields.strip().split(", ")):
            _add(message, *field.split(" "))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = [message.name for message in file.message_type]
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"tf.{name}")) for name in names}


def _add(message: Any, kind: str, definition: str) -> None:
    name, number = definition.split("=")
    label = _FIELD.LABEL_REPEATED if kind.startswith("*") else _FIELD.LABEL_OPTIONAL
    kind = kind.removeprefix("*")
    field = message.field.add(name=name, number=int(number), label=label)
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".tf.{kind}"


MESSAGES = _classes()
