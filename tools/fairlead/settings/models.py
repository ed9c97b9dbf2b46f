"""The models of the settings in fairlead.yaml, with their defaults and checks."""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from typing import Annotated, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from fairlead.common import durations
from fairlead.kube import labels, resources
from fairlead.kube.resources import Resource

NAMESPACE = "fairlead"
"""The namespace that OPA and what belongs to it run in; no policy applies to it."""

STALENESS = (10, 86400)
"""Least and most of maxStaleness, in seconds: a sidecar needs up to 7 to have everything
confirmed again."""

# The label by which each platform tells its node pools apart, and one that no node can give itself
# (NodeRestriction).
NODE_LABELS = {
    "aks": "kubernetes.azure.com/agentpool",
    "gke": "cloud.google.com/gke-nodepool",
    "eks": "eks.amazonaws.com/nodegroup",
    "karpenter": "karpenter.sh/nodepool",
    "node-restriction": "node-restriction.kubernetes.io/agentpool",
}

Intent = Literal["node-pool"]
INTENTS: tuple[Intent, ...] = get_args(Intent)
"""What holds in a cluster, by the names that policies/main.rego gives."""

LabelKey = Annotated[str, AfterValidator(labels.check_key)]
LabelValue = Annotated[str, AfterValidator(labels.check_value)]
# Source: RBAC's own check of a subject's name, and what a header can carry.
Group = Annotated[str, Field(pattern=r"^[^\s,][^\n\r,]*$")]
Duration = Annotated[str, AfterValidator(durations.check)]
Port = Annotated[int, Field(ge=1, le=65535)]


def _check_network(text: str) -> str:
    """Raises ValueError where the text is no network, or has bits beyond its prefix, as API
    servers would.
    """
    try:
        return str(ipaddress.ip_network(text))
    except ValueError as error:
        raise ValueError(
            f"{text!r} is not a network such as 10.0.0.0/24 or 10.0.0.7/32 ({error})"
        ) from error


Network = Annotated[str, AfterValidator(_check_network)]
PoolName = Annotated[str, Field(min_length=1), AfterValidator(labels.check_value)]


class _Strict(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_default=True,
    )


class Toleration(_Strict):
    """A toleration as Kubernetes' core/v1 has it."""

    key: LabelKey | None = None
    operator: Literal["Exists", "Equal", "Lt", "Gt"] = "Equal"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Toleration:
        if self.operator == "Exists" and self.value:
            raise ValueError("a toleration with operator Exists has no value")
        if self.key is None and self.operator != "Exists":
            raise ValueError("a toleration without a key has the operator Exists")
        return self


class Pool(_Strict):
    """What a pod of this pool gets (without a nodeSelector, the node label with the pool's name),
    and may have besides.

    Of the latter, None is anything; what the pool gives, and what clusters add by themselves, is
    always allowed.
    """

    node_selector: dict[LabelKey, LabelValue] = {}
    tolerations: list[Toleration] = []
    allowed_node_selector: dict[LabelKey, list[LabelValue]] | None = None
    allowed_tolerations: list[Toleration] | None = None


class Replicated(_Strict):
    """A resource whose objects OPA gets beside namespaces: whole, or only `fields`, which are
    dotted paths.
    """

    group: str = ""
    version: str
    resource: str
    namespaced: bool = True
    fields: list[str] = []

    @model_validator(mode="after")
    def _legal(self) -> Replicated:
        self.named()
        return self

    def named(self) -> Resource:
        """The resource as the sidecar takes it. Raises ValueError."""
        return resources.make(
            self.group, self.version, self.resource, namespaced=self.namespaced, fields=self.fields
        )


# Looser than the "reference" grammar of Docker, but neither a flag nor two names.
Image = Annotated[str, Field(pattern=r"^[A-Za-z0-9][^\s]*$")]


class Images(_Strict):
    """The images of the deployed pods. Tags are fixed, so that images can be loaded by hand."""

    opa: Image = "openpolicyagent/opa:1.22.0"
    fairlead: Image = "fairlead:0.1.0"
    kube_mgmt: Image = "openpolicyagent/kube-mgmt:9.3.0"
    pull_policy: Literal["IfNotPresent", "Always", "Never"] = "IfNotPresent"


class LogService(_Strict):
    """What OPA uploads decisions to, by POST <url>/logs.

    `secret` names a Secret of NAMESPACE with a bearer `token`, and if `private_authority` is set
    also the `ca.crt` by which the service is verified.
    """

    url: Annotated[str, Field(pattern=r"^https://[-A-Za-z0-9._~:/@%\[\]]+$")]
    secret: Annotated[str, Field(pattern=r"^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$")] | None = None
    private_authority: bool = False

    @model_validator(mode="after")
    def _authority_of_the_secret(self) -> LogService:
        if self.private_authority and not self.secret:
            raise ValueError("privateAuthority takes the ca.crt of a Secret: name it as `secret`")
        return self


class DecisionLogs(_Strict):
    """Where decisions are logged, with what may be secret left out: see policies/log.rego."""

    console: bool = True
    service: LogService | None = None


KUBELET_LIFE = timedelta(minutes=15)
"""The shortest life of a certificate in a cluster of pods: a kubelet brings a changed Secret within
90 seconds, and a renewal waits for that several times in the last third of the life."""


class Certificates(_Strict):
    """Who renews OPA's certificate and its authority, and when: `life` and `renew_before` the end
    are durations.

    A certificate is renewed before a third of its life is left; `renew_before` makes that earlier.
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
        """Why a cluster of pods cannot renew in time, and the way out; None where it can."""
        if self.valid >= KUBELET_LIFE:
            return None
        return (
            f"certificates.life {self.life!r} is too short for kubelets, which take up to 90 "
            f"seconds to bring a renewed certificate: at least {durations.text(KUBELET_LIFE)}"
        )

    @property
    def valid(self) -> timedelta:
        """How long a certificate is good for."""
        return durations.parse(self.life)

    @property
    def renewal(self) -> timedelta:
        """What is left of a certificate when it is renewed."""
        return durations.parse(self.renew_before) if self.renew_before else self.valid / 3


class Settings(_Strict):
    """All settings; each field's name in the file is its name here in camelCase."""

    namespace_label: LabelKey = "agentpool"
    node_label: LabelKey = "agentpool"
    pod_selector: Literal["reject", "merge"] = "reject"
    enforcement: dict[Intent, Literal["deny", "warn"]] = dict.fromkeys(INTENTS, "deny")
    default_pool: PoolName | None = None
    pools: dict[PoolName, Pool] = {}
    contact: str | None = None
    admins: list[Group] = []
    pool_admins: list[Group] | None = None
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    timeout_seconds: int = Field(5, ge=1, le=30)
    replicas: int = Field(2, ge=1, le=100)
    images: Images = Images()
    replicate: list[Replicated] = []
    decision_logs: DecisionLogs = DecisionLogs()
    max_staleness: int | None = Field(None, ge=STALENESS[0], le=STALENESS[1])
    api_server_ports: list[Port] = Field([443, 6443, 8443, 16443], min_length=1)
    api_server_networks: list[Network] | None = Field(None, min_length=1)
    """Whence OPA may be asked, as far as the cluster enforces NetworkPolicies; None for
    anywhere."""
    certificates: Certificates = Certificates()

    @field_validator("node_label", mode="before")
    @classmethod
    def _preset(cls, value: object) -> object:
        return NODE_LABELS.get(value, value) if isinstance(value, str) else value

    @field_validator("certificates", mode="before")
    @classmethod
    def _by_whom(cls, value: object) -> object:
        """One word names who renews them."""
        return {"by": value} if isinstance(value, str) else value

    @field_validator("enforcement", mode="before")
    @classmethod
    def _each_intent(cls, value: object) -> object:
        """One word is for all intents; one that a map leaves out is enforced."""
        if isinstance(value, str):
            return dict.fromkeys(INTENTS, value)
        return {**dict.fromkeys(INTENTS, "deny"), **value} if isinstance(value, dict) else value

    @field_serializer("enforcement")
    def _in_one_word(self, value: dict[Intent, str]) -> str | dict[Intent, str]:
        return next(iter(value.values())) if len(set(value.values())) == 1 else value

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
    def _allowed_by_merge_alone(self) -> Settings:
        for name, pool in self.pools.items():
            if self.pod_selector == "reject" and pool.allowed_node_selector is not None:
                raise ValueError(
                    f"pool {name!r} has an allowedNodeSelector: set podSelector: merge, or it "
                    "allows nothing"
                )
        return self

    @model_validator(mode="after")
    def _default_pool_declared(self) -> Settings:
        if self.default_pool and self.pools and self.default_pool not in self.pools:
            raise ValueError(
                f"defaultPool {self.default_pool!r} is not one of pools: "
                f"{', '.join(sorted(self.pools))}"
            )
        return self

    def enforced(self) -> Settings:
        """These settings with every intent's enforcement `deny`."""
        return self.model_copy(update={"enforcement": dict.fromkeys(INTENTS, "deny")})

    def assignment(self, pool: str) -> Pool:
        """What `pool` gives a pod. Raises KeyError where pools are declared and it is none of
        them.
        """
        declared = self.pools[pool] if self.pools else Pool()
        selector = declared.node_selector or {self.node_label: pool}
        return declared.model_copy(update={"node_selector": selector})

    def pool_keys(self) -> list[str]:
        """The keys of the node labels that say to which pool a node belongs, sorted."""
        if not self.pools:
            return [self.node_label]
        return sorted({key for pool in self.pools for key in self.assignment(pool).node_selector})

    def document(self) -> dict[str, object]:
        """The settings as they would stand in a file, all of them."""
        return self.model_dump(by_alias=True, exclude_none=False)
