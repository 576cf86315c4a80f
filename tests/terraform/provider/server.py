"""A stand-in for terraform-provider-google that knows its schema and nothing else.

The real Terraform starts it like any provider and can `init`, `validate`, `plan` and `test` with it, without a network
and without a login. It refuses what the real one's schema refuses, and plans what was written. It cannot apply.

    extract.py   makes schema.json from the provider's generated bindings
    messages.py  the plugin protocol's messages
    schema.py    schema.json as Terraform wants to hear it
    planning.py  what is refused, and what a plan says
    server.py    the handshake and the calls: the process that Terraform starts

The handshake is that of HashiCorp's go-plugin: one line on standard output says where to call, over TLS on the loopback
interface, and with which certificate; only whoever started the process reads it.
"""

import base64
import datetime
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import grpc
import msgspec
import planning
import schema
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from messages import MESSAGES

_COOKIE = "TF_PLUGIN_MAGIC_COOKIE"
_STOP = threading.Event()
_RESOURCES, _DATA = schema.SCHEMA["resources"], schema.SCHEMA["data"]


def load(value: Any) -> Any:
    return msgspec.msgpack.decode(value.msgpack) if value.msgpack else None


def dump(value: Any) -> Any:
    return MESSAGES["Value"](msgpack=msgspec.msgpack.encode(value))


def diagnostics(texts: Sequence[str]) -> list[Any]:
    return [MESSAGES["Diagnostic"](severity=1, summary="Not as the schema says", detail=text) for text in texts]


def validate(request: Any) -> Any:
    found = planning.faults(_RESOURCES[request.type_name], load(request.config), f"{request.type_name}.")
    return MESSAGES["Diagnostics"](diagnostics=diagnostics(list(found)))


def plan(request: Any) -> Any:
    block, proposed = _RESOURCES[request.type_name], load(request.proposed_new_state)
    state = planning.planned(request.type_name, block, proposed, load(request.config))
    return MESSAGES["PlanAnswer"](planned_state=dump(state), legacy_type_system=True)


def read_data(request: Any) -> Any:
    return MESSAGES["DataAnswer"](state=dump(planning.data(_DATA[request.type_name], load(request.config))))


def refuse(_: Any) -> Any:
    return MESSAGES["ApplyAnswer"](diagnostics=diagnostics(["this stand-in knows schemas only and cannot apply"]))


_CALLS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "GetSchema": ("Empty", lambda _: schema.answer()),
    "PrepareProviderConfig": ("ConfigRequest", lambda r: MESSAGES["PrepareAnswer"](prepared_config=r.config)),
    "Configure": ("ConfigureRequest", lambda _: MESSAGES["Diagnostics"]()),
    "ValidateResourceTypeConfig": ("TypedRequest", validate),
    "ValidateDataSourceConfig": ("TypedRequest", lambda _: MESSAGES["Diagnostics"]()),
    "PlanResourceChange": ("PlanRequest", plan),
    "ApplyResourceChange": ("Empty", refuse),
    "ReadDataSource": ("TypedRequest", read_data),
    "ReadResource": ("ReadRequest", lambda r: MESSAGES["ReadAnswer"](new_state=r.current_state)),
    "Stop": ("Empty", lambda _: MESSAGES["Empty"]()),
}


def stop(_: Any) -> Any:
    _STOP.set()
    return MESSAGES["Empty"]()


def handler(request: str, call: Callable[[Any], Any]) -> Any:
    return grpc.unary_unary_rpc_method_handler(
        lambda message, _: call(message),
        request_deserializer=MESSAGES[request].FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )


def services() -> list[Any]:
    return [
        grpc.method_handlers_generic_handler(
            "tfplugin5.Provider", {name: handler(*call) for name, call in _CALLS.items()}
        ),
        grpc.method_handlers_generic_handler(
            "grpc.health.v1.Health", {"Check": handler("Empty", lambda _: MESSAGES["HealthAnswer"](status=1))}
        ),
        grpc.method_handlers_generic_handler("plugin.GRPCController", {"Shutdown": handler("Empty", stop)}),
    ]


def certificate() -> tuple[bytes, bytes, bytes]:
    """(key, certificate, the certificate in binary form), for a day."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding, plain = serialization.Encoding, serialization.NoEncryption()
    pem = key.private_bytes(encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    return pem, made.public_bytes(encoding.PEM), made.public_bytes(encoding.DER)


def main() -> None:
    if _COOKIE not in os.environ:
        raise SystemExit("this is a provider: terraform starts it")
    key, pem, binary = certificate()
    server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers(tuple(services()))
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, pem)]))
    server.start()
    line = f"1|5|tcp|127.0.0.1:{port}|grpc|{base64.b64encode(binary).decode().rstrip('=')}"
    print(line, flush=True)
    _STOP.wait()
    server.stop(0.2)


if __name__ == "__main__":
    main()
