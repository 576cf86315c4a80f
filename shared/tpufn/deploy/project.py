"""A Google Cloud project as `deploy` and `doctor` see it: login, APIs, permissions, quotas, networks, buckets.

Plain REST calls with the caller's own credentials: each of these is one or two calls of a service of its own, and none
is worth a client library.
"""

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from google.api_core import exceptions
from google.auth.exceptions import GoogleAuthError

from tpufn.adapters.google_access import LOGIN, mending
from tpufn.domain.errors import CloudUnavailable, NotFound

_TIMEOUT = 30.0
_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_BATCH = 20


class Calls(Protocol):
    """One call of a Google API: the answer's JSON. Raises google.api_core exceptions and GoogleAuthError."""

    def __call__(self, method: str, url: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]: ...


class AuthorizedCalls:
    """The real ones, with application default credentials."""

    def __init__(self) -> None:
        self._session: Any = None

    def __call__(self, method: str, url: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        if self._session is None:
            import google.auth
            from google.auth.transport.requests import AuthorizedSession

            credentials, _ = google.auth.default(scopes=_SCOPES)
            self._session = AuthorizedSession(credentials)  # type: ignore[no-untyped-call]
        answer = self._session.request(method, url, json=body, timeout=_TIMEOUT)
        if answer.status_code >= 400:
            raise exceptions.from_http_response(answer)  # type: ignore[no-untyped-call]
        found: Mapping[str, Any] = answer.json() if answer.content else {}
        return found


class Project:
    """Raises NotFound and CloudUnavailable, with the command that mends it."""

    def __init__(self, id: str, *, call: Calls | None = None) -> None:
        self.id, self._call = id, call or AuthorizedCalls()

    def caller(self) -> str:
        """Who is logged in: an account's address, or its number."""
        told = self._ask("GET", "https://openidconnect.googleapis.com/v1/userinfo", "the login", "")
        return str(told.get("email") or told.get("sub") or "somebody")

    def number(self) -> str:
        """Raises NotFound where there is no such project, or it is not ours to see."""
        url = f"https://cloudresourcemanager.googleapis.com/v1/projects/{self.id}"
        return str(self._ask("GET", url, f"project {self.id}", "roles/browser")["projectNumber"])

    def enabled(self, apis: Collection[str]) -> set[str]:
        """Those of the APIs that are switched on."""
        found: set[str] = set()
        names = sorted(apis)
        for start in range(0, len(names), _BATCH):
            query = "&".join(f"names=projects/{self.id}/services/{api}" for api in names[start : start + _BATCH])
            url = f"https://serviceusage.googleapis.com/v1/projects/{self.id}/services:batchGet?{query}"
            told = self._ask("GET", url, "the project's APIs", "roles/serviceusage.serviceUsageViewer")
            on = [each for each in told.get("services", ()) if each.get("state") == "ENABLED"]
            found |= {str(each["name"]).rpartition("/")[2] for each in on}
        return found

    def enable(self, apis: Collection[str]) -> None:
        """Returns when it is asked for; it takes a minute or two."""
        url = f"https://serviceusage.googleapis.com/v1/projects/{self.id}/services:batchEnable"
        names = sorted(apis)
        for start in range(0, len(names), _BATCH):
            body = {"serviceIds": names[start : start + _BATCH]}
            self._ask("POST", url, "the project's APIs", "roles/serviceusage.serviceUsageAdmin", body)

    def granted(self, permissions: Collection[str]) -> set[str]:
        """Those of the permissions that the caller has."""
        url = f"https://cloudresourcemanager.googleapis.com/v1/projects/{self.id}:testIamPermissions"
        told = self._ask("POST", url, "the caller's roles", "roles/browser", {"permissions": sorted(permissions)})
        return set(told.get("permissions", ()))

    def ensure_bucket(self, name: str, region: str) -> bool:
        """A private bucket with versions, for Terraform's state; whether it was made."""
        url = "https://storage.googleapis.com/storage/v1/b"
        try:
            self._ask("GET", f"{url}/{name}", f"the bucket {name}", "roles/storage.admin")
        except NotFound:
            uniform = {"uniformBucketLevelAccess": {"enabled": True}, "publicAccessPrevention": "enforced"}
            body = {"name": name, "location": region, "iamConfiguration": uniform, "versioning": {"enabled": True}}
            self._ask("POST", f"{url}?project={self.id}", f"the bucket {name}", "roles/storage.admin", body)
            return True
        return False

    def addresses(self, region: str) -> tuple[int, int]:
        """(limit, used) of external addresses in a region: each worker with a public address takes one."""
        url = f"https://compute.googleapis.com/compute/v1/projects/{self.id}/regions/{region}"
        told = self._ask("GET", url, f"the quotas of {region}", "roles/compute.viewer")
        for quota in told.get("quotas", ()):
            if quota.get("metric") == "IN_USE_ADDRESSES":
                return int(quota["limit"]), int(quota["usage"])
        return 0, 0

    def allows_ssh(self, network: str) -> bool:
        """Whether some firewall rule lets SSH into the network."""
        url = f"https://compute.googleapis.com/compute/v1/projects/{self.id}/global/firewalls"
        told = self._ask("GET", url, "the firewall rules", "roles/compute.networkViewer")
        return any(_lets_ssh_in(rule, network) for rule in told.get("items", ()))

    def tpu_types(self, zone: str) -> set[str]:
        """The accelerator types that the TPU API offers in a zone."""
        return self._offered(zone, "acceleratorTypes", "type")

    def runtimes(self, zone: str) -> set[str]:
        return self._offered(zone, "runtimeVersions", "version")

    def tpu_quotas(self) -> Mapping[str, Mapping[str, int]]:
        """Quota's name -> {region or zone: limit}, for those of the TPU API that are not 0."""
        url = f"https://serviceusage.googleapis.com/v1beta1/projects/{self.id}/services/tpu.googleapis.com"
        told = self._ask("GET", f"{url}/consumerQuotaMetrics?pageSize=500", "the TPU quotas", "roles/viewer")
        found: dict[str, dict[str, int]] = {}
        for metric in told.get("metrics", ()):
            for limit in metric.get("consumerQuotaLimits", ()):
                places = {_place(bucket): int(bucket.get("effectiveLimit", 0)) for bucket in limit["quotaBuckets"]}
                found[str(metric.get("displayName") or metric.get("metric"))] = {p: n for p, n in places.items() if n}
        return found

    def indexes(self, database: str) -> set[tuple[str, tuple[str, ...]]]:
        """The composite indexes of a Firestore database that are ready: (collection, fields in order)."""
        parent = f"projects/{self.id}/databases/{database}/collectionGroups/-/indexes"
        url = f"https://firestore.googleapis.com/v1/{parent}?pageSize=500"
        told = self._ask("GET", url, f"the database {database}", "roles/datastore.viewer")
        ready = [each for each in told.get("indexes", ()) if each.get("state") == "READY"]
        return {(str(each["name"]).split("/")[5], _fields(each)) for each in ready}

    def _offered(self, zone: str, kind: str, key: str) -> set[str]:
        url = f"https://tpu.googleapis.com/v2/projects/{self.id}/locations/{zone}/{kind}?pageSize=500"
        told = self._ask("GET", url, f"what TPUs {zone} offers", "roles/tpu.viewer")
        return {str(each[key]) for each in told.get(kind, ()) if each.get(key)}

    def _ask(
        self, method: str, url: str, what: str, role: str, body: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        try:
            return self._call(method, url, body)
        except exceptions.NotFound as error:
            raise NotFound(f"{what}: {error.message}") from error
        except GoogleAuthError as error:
            raise CloudUnavailable(f"{what}: no usable Google login ({error}); {LOGIN}") from error
        except exceptions.GoogleAPIError as error:
            fix = mending(error, role=role, project=self.id)
            raise CloudUnavailable(
                f"{what}: {getattr(error, 'message', error)}" + (f"; {fix}" if fix else "")
            ) from error


def _lets_ssh_in(rule: Mapping[str, Any], network: str) -> bool:
    if rule.get("direction") != "INGRESS" or rule.get("disabled") or not str(rule["network"]).endswith(f"/{network}"):
        return False
    return any(
        each.get("IPProtocol") in ("tcp", "all") and (not each.get("ports") or "22" in each["ports"])
        for each in rule.get("allowed", ())
    )


def _fields(index: Mapping[str, Any]) -> tuple[str, ...]:
    """Without the document's name, which the database adds to each."""
    return tuple(str(f["fieldPath"]) for f in index["fields"] if f["fieldPath"] != "__name__")


def _place(bucket: Mapping[str, Any]) -> str:
    where = bucket.get("dimensions") or {}
    return str(where.get("zone") or where.get("region") or "everywhere")
