"""The models of the settings in fairlead.yaml, with their defaults and checks."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_snake

from fairlead.common import durations
from fairlead.common.mistakes import Mistake, Mistakes
from fairlead.kube import labels, resources
from fairlead.kube.own_kinds import EXCEPTIONS
from fairlead.kube.resources import Resource
from fairlead.settings.access import Access
from fairlead.settings.selectors import Selector
from fairlead.settings.services import SERVICES, Service
from fairlead.settings.strict import Duration, Group, LabelKey, LabelValue, Strict, User

STALENESS = (10, 86400)
"""The limits of maxStaleness, in seconds. A sidecar needs up to 7 to confirm all data."""

# The label of node pools on each platform, and one that no node can set (NodeRestriction).
NODE_LABELS = {
    "aks": "kubernetes.azure.com/agentpool",
    "gke": "cloud.google.com/gke-nodepool",
    "eks": "eks.amazonaws.com/nodegroup",
    "karpenter": "karpenter.sh/nodepool",
    "node-restriction": "node-restriction.kubernetes.io/agentpool",
}

FORMER = "placementPolicies"
"""A setting of former versions."""

Mode = Literal["deny", "warn"]
EVERY = "*"
"""In `enforcement`, this stands for every intent that is not named."""
IntentName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=63)]

Port = Annotated[int, Field(ge=1, le=65535)]


def _check_network(text: str) -> str:
    """Raises ValueError if the text is not a network or has bits beyond its prefix, as in API
    servers.
    """
    try:
        return str(ipaddress.ip_network(text))
    except ValueError as error:
        raise ValueError(
            f"{text!r} is not a network such as 10.0.0.0/24 or 10.0.0.7/32 ({error})"
        ) from error


_LATER = ("exceptionAdmins", "findings")
"""Settings that earlier versions did not know."""
NEVER = "never"
"""Stands for no interval."""


def _often(text: str) -> str:
    """Raises ValueError for an interval that is none, or too short."""
    if text != NEVER and durations.parse(durations.check(text)) < timedelta(minutes=1):
        raise ValueError(f"{text!r} is less than a minute: write 1m or more, or {NEVER}")
    return text


Network = Annotated[str, AfterValidator(_check_network)]
PoolName = Annotated[str, Field(min_length=1), AfterValidator(labels.check_value)]


class Toleration(Strict):
    """A toleration, as in Kubernetes' core/v1."""

    key: LabelKey | None = None
    operator: Literal["Exists", "Equal", "Lt", "Gt"] = "Equal"
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None

    @field_validator("value")
    @classmethod
    def _present(cls, value: str | None) -> str | None:
        return value or None  # API servers leave out an empty one

    @model_validator(mode="after")
    def _consistent(self) -> Toleration:
        if self.operator == "Exists" and self.value:
            raise ValueError("a toleration with operator Exists has no value")
        if self.key is None and self.operator != "Exists":
            raise ValueError("a toleration without a key has the operator Exists")
        return self


def _accepted(toleration: Toleration) -> Toleration:
    """A toleration that pods can get: API servers refuse every other one."""
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        raise ValueError("a toleration with tolerationSeconds has the effect NoExecute")
    return toleration


class Pool(Strict):
    """What a pod of this pool gets, and what else it may have.

    Without a nodeSelector, a pod gets the node label with the pool's name. If an `allowed_` field
    is None, everything is allowed. What the pool gives and what clusters add is always allowed.
    """

    node_selector: dict[LabelKey, LabelValue] = {}
    tolerations: list[Annotated[Toleration, AfterValidator(_accepted)]] = []
    allowed_node_selector: dict[LabelKey, list[LabelValue]] | None = None
    allowed_tolerations: list[Toleration] | None = None


class Replicated(Strict):
    """A resource that OPA gets besides namespaces: whole objects, or some `fields` (paths)."""

    group: str = ""
    version: str
    resource: str
    namespaced: bool = True
    fields: list[str] = []

    @model_validator(mode="after")
    def _legal(self) -> Replicated:
        if self.named().name == EXCEPTIONS[0]:
            raise ValueError(f"{EXCEPTIONS[0]} are always replicated: leave them out here")
        return self

    def named(self) -> Resource:
        """The resource in the sidecar's form. Raises ValueError."""
        return resources.make(
            self.group, self.version, self.resource, namespaced=self.namespaced, fields=self.fields
        )


# Looser than the "reference" grammar of Docker, but neither a flag nor two names.
Image = Annotated[str, Field(pattern=r"^[A-Za-z0-9][^\s]*$")]


class Images(Strict):
    """The images of the deployed pods. Tags are fixed, so that images can be loaded by hand."""

    opa: Image = "fairlead:0.1.0"
    fairlead: Image = "fairlead:0.1.0"
    kube_mgmt: Image = "openpolicyagent/kube-mgmt:9.3.0"
    pull_policy: Literal["IfNotPresent", "Always", "Never"] = "IfNotPresent"


class LogService(Strict):
    """The service to which OPA uploads decisions, by POST <url>/logs.

    `secret` names a Secret in Fairlead's namespace with a bearer `token`. If `private_authority` is
    set, it also holds `ca.crt`, the CA that verifies the service.
    """

    url: Annotated[str, Field(pattern=r"^https://[-A-Za-z0-9._~:/@%\[\]]+$")]
    secret: Annotated[str, Field(pattern=r"^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$")] | None = None
    private_authority: bool = False

    @model_validator(mode="after")
    def _ca_of_the_secret(self) -> LogService:
        if self.private_authority and not self.secret:
            raise ValueError("privateAuthority takes the ca.crt of a Secret: name it as `secret`")
        return self


class DecisionLogs(Strict):
    """Where decisions are logged. OPA's plugin leaves out what may be secret.

    `sample` is the share of the decisions that admit, without a warning, that are logged.
    """

    console: bool = True
    service: LogService | None = None
    sample: Annotated[float, Field(ge=0.000001, le=1)] = 1


KUBELET_LIFE = timedelta(minutes=15)
"""The shortest life of a certificate in a cluster of pods: a kubelet brings a changed Secret within
90 seconds, and a renewal waits for that several times in the last third of the life."""


class Certificates(Strict):
    """Who renews OPA's certificate and its CA, and when.

    `life` and `renew_before` are durations. A certificate is renewed when a third of its life is
    left, or earlier: `renew_before` its end.
    """

    by: Literal["fairlead", "cert-manager"] = "fairlead"
    life: Duration = "90d"
    renew_before: Duration | None = None

    @model_validator(mode="after")
    def _in_time(self) -> Certificates:
        shortest = timedelta(hours=1) if self.by == "cert-manager" else timedelta(minutes=1)
        if self.valid < shortest:
            raise ValueError(
                f"certificates.life {self.life!r} is too short: at least {durations.text(shortest)}"
            )
        if not self.valid / 3 <= self.renewal < self.valid:
            raise ValueError(
                f"certificates.renewBefore {self.renew_before!r} is not between a third of the "
                f"life {self.life!r} and "
                "all of it"
            )
        return self

    def too_short_for_kubelets(self) -> str | None:
        """Why a cluster of pods cannot renew in time, and the fix; None if it can."""
        if self.valid >= KUBELET_LIFE:
            return None
        return (
            f"certificates.life {self.life!r} is too short for kubelets, which take up to 90 "
            f"seconds to bring a renewed certificate: at least {durations.text(KUBELET_LIFE)}"
        )

    @property
    def valid(self) -> timedelta:
        """How long a certificate is valid."""
        return durations.parse(self.life)

    @property
    def renewal(self) -> timedelta:
        """How long before its end a certificate is renewed."""
        return durations.parse(self.renew_before) if self.renew_before else self.valid / 3


NamespaceName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]


class Exempt(Strict):
    """Whose requests, and the requests of which namespaces, an intent leaves alone."""

    users: list[User] = []
    groups: list[Group] = []
    namespaces: list[NamespaceName] = []


class Instance(Strict):
    """An instance of an intent: its parameters, and the requests that it applies to.

    Of the namespaces that the intent has a say in, it applies to those that `namespaces` selects.
    """

    enabled: bool = True
    parameters: dict[str, Any] = {}
    namespaces: Selector = Selector()
    exempt: Exempt = Exempt()


class IntentSettings(Instance):
    """An instance of an intent, as the settings name it.

    `intent` is what it is an instance of; None for the intent with the instance's own name.
    """

    intent: IntentName | None = None


class Settings(Strict):
    """All settings. In the file, names are in camelCase."""

    namespace_label: LabelKey = "agentpool"
    node_label: LabelKey = "agentpool"
    pod_selector: Literal["reject", "merge"] = "reject"
    policies: list[str] = []
    """Folders of policies besides the project's own."""
    intents: dict[IntentName, IntentSettings] = {}
    enforcement: dict[str, Mode] = {}
    placement: bool = False
    """Whether OPA also answers on which clusters a workload runs."""
    access: Access | None = None
    """Whether OPA also decides on transient role bindings; None if not."""
    default_pool: PoolName | None = None
    pools: dict[PoolName, Pool] = {}
    contact: str | None = None
    admins: list[Group] = []
    pool_admins: list[Group] | None = None
    exception_admins: list[Group] = []
    """The groups that may create and change PolicyExceptions, besides administrators."""
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    timeout_seconds: int = Field(5, ge=1, le=30)
    replicas: int = Field(2, ge=1, le=100)
    images: Images = Images()
    replicate: list[Replicated] = []
    decision_logs: DecisionLogs = DecisionLogs()
    findings: Annotated[str, AfterValidator(_often)] = "10m"
    """How often the controller looks for objects that policies would refuse, as a duration of at
    least a minute, or `never`."""
    max_staleness: int | None = Field(None, ge=STALENESS[0], le=STALENESS[1])
    api_server_ports: list[Port] = Field([443, 6443, 8443, 16443], min_length=1)
    api_server_networks: list[Network] | None = Field(None, min_length=1)
    """The networks that may call OPA, if the cluster enforces NetworkPolicies; None for all."""
    certificates: Certificates = Certificates()

    @model_validator(mode="before")
    @classmethod
    def _of_this_version(cls, value: object) -> object:
        if isinstance(value, dict) and FORMER in value:
            raise Mistakes(
                [
                    Mistake(
                        (FORMER,),
                        f"{FORMER} is gone: leave it out, and apply each PlacementPolicy as a "
                        "Policy (docs/objects.md)",
                    )
                ]
            )
        return value

    @field_validator("node_label", mode="before")
    @classmethod
    def _preset(cls, value: object) -> object:
        return NODE_LABELS.get(value, value) if isinstance(value, str) else value

    @field_validator("certificates", mode="before")
    @classmethod
    def _by_whom(cls, value: object) -> object:
        """One word is short for `by`."""
        return {"by": value} if isinstance(value, str) else value

    @field_validator("access", mode="before")
    @classmethod
    def _with_defaults(cls, value: object) -> object:
        """`true` stands for the defaults, and `false` for None."""
        return ({} if value else None) if isinstance(value, bool) else value

    @field_serializer("access", mode="wrap")
    def _or_false(self, value: Access | None, handler: SerializerFunctionWrapHandler) -> object:
        return False if value is None else handler(value)

    @field_validator("enforcement", mode="before")
    @classmethod
    def _every_intent(cls, value: object) -> object:
        """One word applies to all intents."""
        return {EVERY: value} if isinstance(value, str) else value

    @field_serializer("enforcement")
    def _in_one_word(self, value: dict[str, Mode]) -> Mode | dict[str, Mode]:
        return value.get(EVERY, "deny") if value.keys() <= {EVERY} else value

    @field_validator("intents", mode="before")
    @classmethod
    def _switches(cls, value: object) -> object:
        """`true` and `false` are short for `enabled`."""
        if not isinstance(value, dict):
            return value
        return {
            name: {"enabled": entry} if isinstance(entry, bool) else entry
            for name, entry in value.items()
        }

    @field_validator("replicate")
    @classmethod
    def _each_once(cls, value: list[Replicated]) -> list[Replicated]:
        resources.check_distinct(replicated.named() for replicated in value)
        return value

    @field_validator("contact")
    @classmethod
    def _one_line(cls, value: str | None) -> str | None:
        if value is not None and not (value.strip() and value.isprintable()):
            raise ValueError(f"contact {value!r} is not one line of text")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        if contradictions := [*self._allowed_in_vain(), *self._default_undeclared()]:
            raise Mistakes(contradictions)
        return self

    def remarks(self) -> Iterator[str]:
        """What these settings leave open, and how to close it, each as a sentence."""
        if self.pool_admins is not None and self.default_pool is None:
            yield (
                "poolAdmins without defaultPool: whoever may delete a namespace and create it "
                "again without the label takes it out of its pool; set defaultPool, which places "
                "the pods of all namespaces, or let only poolAdmins create namespaces"
            )
        for replicated in self.replicate:
            if "fields" not in replicated.model_fields_set:
                yield (
                    f"replicate: OPA gets whole {replicated.resource}, which users size; name the "
                    "`fields` that policies read, or write `fields: []` for whole objects"
                )

    def _allowed_in_vain(self) -> Iterator[Mistake]:
        for name, pool in self.pools.items():
            if self.pod_selector == "reject" and pool.allowed_node_selector is not None:
                yield Mistake(
                    ("pools", name, "allowedNodeSelector"),
                    f"pool {name!r} has an allowedNodeSelector: set podSelector: merge, or it "
                    "allows nothing",
                    keys=("pools", "podSelector"),
                )

    def _default_undeclared(self) -> Iterator[Mistake]:
        if self.default_pool and self.pools and self.default_pool not in self.pools:
            yield Mistake(
                ("defaultPool",),
                f"defaultPool {self.default_pool!r} is not one of pools: "
                f"{', '.join(sorted(self.pools))}",
                keys=("pools", "defaultPool"),
            )

    def instances(self, intent: str, *, default: bool) -> dict[str, IntentSettings]:
        """The instances of an intent that are in force, by name. `default` is whether the instance
        with the intent's own name is in force if the settings do not name it.
        """
        base = {intent: IntentSettings(enabled=default)}
        entries = {
            name: entry for name, entry in self.intents.items() if (entry.intent or name) == intent
        }
        return {name: entry for name, entry in sorted({**base, **entries}.items()) if entry.enabled}

    def disabled(self) -> dict[str, IntentSettings]:
        """The instances that the settings switch off."""
        return {name: entry for name, entry in self.intents.items() if not entry.enabled}

    def mode(self, intent: str) -> Mode:
        """The intent's enforcement. An intent that the settings do not list is enforced."""
        return self.enforcement.get(intent, self.enforcement.get(EVERY, "deny"))

    def enforced(self) -> Settings:
        """These settings with every intent's enforcement `deny`."""
        return self.model_copy(update={"enforcement": {}})

    def assignment(self, pool: str) -> Pool:
        """What `pool` gives a pod. Raises KeyError if pools are declared without this one."""
        declared = self.pools[pool] if self.pools else Pool()
        selector = declared.node_selector or {self.node_label: pool}
        return declared.model_copy(update={"node_selector": selector})

    def complete(self) -> Settings:
        """The same settings, with the nodeSelector that each pool gives."""
        if not self.pools:
            return self
        return self.model_copy(
            update={"pools": {name: self.assignment(name) for name in self.pools}}
        )

    def pool_keys(self) -> list[str]:
        """The keys of the node labels that say which pool a node belongs to, sorted."""
        if not self.pools:
            return [self.node_label]
        return sorted({key for pool in self.pools for key in self.assignment(pool).node_selector})

    def document(self) -> dict[str, object]:
        """All settings, in the form of the file."""
        return self.model_dump(by_alias=True, exclude_none=False)

    def services(self) -> list[Service]:
        """The decisions beside admission that these settings want."""
        return [service for service in SERVICES if getattr(self, service.setting)]

    def scopes(self) -> list[str]:
        """The names of the scopes that a deployment with these settings has a token for."""
        return [service.setting for service in self.services()]

    def deployed_document(self) -> dict[str, object]:
        """The settings that a cluster keeps: all but the places of policies on this machine, and
        what is switched on by a setting of its own (services, `decisionLogs.sample`, what earlier
        versions did not know) only if it is not the default, so that other deployments stay as
        earlier versions made them.
        """
        services = self.services()
        off = {service.setting for service in SERVICES if service not in services}
        document = self.document()
        later = {
            key for key in _LATER if document[key] == Settings.model_fields[to_snake(key)].default
        }
        left_out = {"policies", *off, *later}
        if self.decision_logs.sample == 1:
            excluded = {"sample"}
            document["decisionLogs"] = self.decision_logs.model_dump(
                by_alias=True, exclude=excluded
            )
        return {key: value for key, value in document.items() if key not in left_out}

    @classmethod
    def of_deployed(cls, deployed: Mapping[str, object]) -> dict[str, object]:
        """The settings that a cluster keeps, with what `deployed_document` leaves out."""
        default = cls()
        document = default.deployed_document()
        off = {key: value for key, value in default.document().items() if key not in document}
        del off["policies"]
        return {**off, **deployed}
