"""Blocks that all kinds with runs share: engine and pods, retries."""

import enum
from collections.abc import Callable, Sequence
from typing import Annotated, Final, TypeVar

from pydantic import Field, StringConstraints

from hoodie_operator.api import fields, rules

Spec = TypeVar("Spec")


class Engine(enum.Enum):
    """The engine that executes tasks."""

    LOCAL = "Local"
    SPARK = "Spark"


SparkKey = Annotated[str, StringConstraints(pattern=r"^spark\.[A-Za-z0-9._-]+$", max_length=256)]
SparkValue = Annotated[str, StringConstraints(max_length=2048)]
VariableValue = Annotated[str, StringConstraints(max_length=4096)]
Variables = Annotated[dict[fields.Variable, VariableValue], Field(max_length=64)]
Secrets = Annotated[tuple[fields.ObjectReference, ...], Field(max_length=16)]


class Amounts(fields.Block):
    """Amounts of CPU and memory."""

    cpu: fields.Cpu | None = Field(default=None, description="Cores, such as 2 or 500m.")
    memory: fields.Memory | None = Field(default=None, description="Memory, such as 2Gi.")


class Resources(fields.Block):
    """Resource requests and limits of a pod."""

    requests: Amounts = Amounts()
    limits: Amounts = Amounts()


class Executors(fields.Block):
    """Spark's executor pods. The run's own pod is the driver."""

    instances: int = Field(default=2, ge=1, le=1000, description="Number of executor pods.")
    resources: Resources = Field(
        default=Resources(),
        description=(
            "Resources of each executor. Default: resources.executors of the operator's "
            "configuration. Half of the memory limit is for the JVM's heap, half for Python."
        ),
    )


class TolerationOperator(enum.Enum):
    """How a taint is compared."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(enum.Enum):
    """What a taint does."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Toleration(fields.Block):
    """A toleration, as in a pod's spec."""

    key: fields.LabelKey | None = Field(
        default=None, description="Key of the taint. By default every taint."
    )
    operator: TolerationOperator | None = None
    value: fields.Label | None = Field(
        default=None, description="Value of the taint, with operator Equal."
    )
    effect: TaintEffect | None = None
    toleration_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = Field(
        default=None,
        description="How long a pod stays on a node with the taint, with effect NoExecute.",
    )


class Runtime(fields.Block):
    """The engine of runs, and their pods."""

    engine: Engine = Field(
        default=Engine.LOCAL, description="Local: threads of one process. Spark: Apache Spark."
    )
    parallelism: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description=(
            "Number of threads, or of Spark's local cores. Defaults to the CPUs of the machine."
        ),
    )
    spark_conf: dict[SparkKey, SparkValue] | None = Field(
        default=None,
        max_length=128,
        description=(
            "Additional Spark properties, except spark.master and spark.kubernetes.*, which the "
            "operator sets."
        ),
    )
    image: fields.Image | None = Field(
        default=None, description="Image of the pods. Defaults to the operator's image."
    )
    image_pull_secrets: Secrets | None = Field(
        default=None, description="Pull secrets, in addition to the operator's own."
    )
    resources: Resources | None = Field(
        default=None,
        description=(
            "Resources of the run's pod. Default: resources.runs of the operator's configuration."
        ),
    )
    executors: Executors | None = Field(
        default=None,
        description=(
            "Executor pods, with engine Spark only. Without them all tasks run in the run's pod."
        ),
    )
    node_selector: fields.Labels | None = Field(
        default=None, description="Labels of the nodes on which the pods may run."
    )
    tolerations: tuple[Toleration, ...] | None = Field(default=None, max_length=16)
    env: Variables | None = Field(
        default=None,
        description="Environment variables, in addition to those of the table's storage.",
    )


class Backoff(fields.Block):
    """Back-off between attempts: exponential with jitter, from initial to max."""

    initial: fields.Duration = Field(
        default="5s",
        description="Delay before the second attempt; it doubles with each further one.",
    )
    max: fields.Duration = Field(default="5m", description="The longest delay.")


class OutOfMemory(fields.Block):
    """How the memory of an attempt grows after an attempt that ran out of memory."""

    increase_percent: int = Field(
        default=50, ge=0, le=400, description="Increase over the previous attempt, in percent."
    )
    max_percent: int = Field(
        default=400, ge=100, le=3200, description="Maximum, in percent of the declared memory."
    )


class Retry(fields.Block):
    """How often and when attempts that failed with a retryable error are repeated."""

    limit: int = Field(
        default=5,
        ge=0,
        le=100,
        description=(
            "Number of further attempts after a failure. Each commit resets the count of failures."
        ),
    )
    backoff: Backoff = Backoff()
    out_of_memory: OutOfMemory = OutOfMemory()


_OBEYED_PREFIXES: Final = (
    *("PYTHON", "PYSPARK_", "LD_", "DYLD_", "GLIBC_", "MALLOC_", "BASH", "SHELL"),
    *("JAVA_", "JDK_", "SPARK_", "HADOOP_", "OPENSSL_", "PERL"),
    *("KUBERNETES_", "HUDI_OPERATOR_", "GOOGLE_EXTERNAL_ACCOUNT_"),
)
_OBEYED_SUFFIX: Final = "JAVA_OPTIONS"
_OBEYED_NAMES: Final = (
    *("PATH", "HOME", "USER", "ENV", "IFS", "PS4", "PROMPT_COMMAND", "BROWSER", "EDITOR", "PAGER"),
    *("GCONV_PATH", "CLASSPATH"),
    # By files of these the clients of clouds run programs.
    *("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_DATA_PATH"),
)
"""Variables that have a program load or run what they name, or that are the operator's own."""

_OBEYED_CEL: Final = " || ".join(
    (
        *(f"name.startsWith('{prefix}')" for prefix in _OBEYED_PREFIXES),
        f"name.endsWith('{_OBEYED_SUFFIX}')",
        f"name in [{', '.join(repr(name) for name in _OBEYED_NAMES)}]",
    )
)


def variables_rule(field: str, get: Callable[[Spec], dict[str, str] | None]) -> rules.Rule[Spec]:
    """Return the rule that environment variables are none that interpreters obey.

    Args:
        field: Where they are.
        get: The variables of a spec.
    """
    return rules.Rule(
        name=f"variables-of-{field.partition('.')[0]}",
        field=field,
        message=(
            "has a variable on which interpreters, loaders or clients act (PYTHON*, LD_*, JAVA_*, "
            "SPARK_*, PATH, HOME, AWS_CONFIG_FILE, ...), expected none of these"
        ),
        cel=f"!has(self.{field}) || self.{field}.all(name, !({_OBEYED_CEL}))",
        holds=lambda spec: not any(_is_obeyed(name) for name in get(spec) or ()),
    )


def _is_obeyed(name: str) -> bool:
    return (
        name.startswith(_OBEYED_PREFIXES) or name.endswith(_OBEYED_SUFFIX) or name in _OBEYED_NAMES
    )


_POD_PROPERTIES: Final = "spark.kubernetes."
"""With these Spark would make other pods than the operator says: other volumes, other accounts."""

_MASTER: Final = "spark.master"
_AMOUNTS: Final = ("requests", "limits")


def runtime_rules(get: Callable[[Spec], Runtime]) -> Sequence[rules.Rule[Spec]]:
    """Return the rules of a spec that has a runtime.

    Args:
        get: The runtime of a spec.
    """
    return (
        variables_rule("runtime.env", lambda spec: get(spec).env),
        rules.Rule(
            name="spark-properties-of-operator",
            field="runtime.sparkConf",
            message=f"has {_MASTER} or {_POD_PROPERTIES}*, expected neither",
            cel=(
                "!has(self.runtime.sparkConf) || self.runtime.sparkConf.all(key, "
                f"key != '{_MASTER}' && !key.startsWith('{_POD_PROPERTIES}'))"
            ),
            holds=lambda spec: (
                not any(
                    key == _MASTER or key.startswith(_POD_PROPERTIES)
                    for key in get(spec).spark_conf or ()
                )
            ),
        ),
        rules.Rule(
            name="executors-of-spark",
            field="runtime.executors",
            message="is valid with engine Spark only",
            cel="!has(self.runtime.executors) || self.runtime.engine == 'Spark'",
            holds=lambda spec: get(spec).executors is None or get(spec).engine is Engine.SPARK,
        ),
        rules.Rule(
            name="memory-of-run",
            field="runtime.resources",
            message="has a memory limit below the memory request, expected at least as much",
            cel=f"!has(self.runtime.resources) || {_fits('self.runtime.resources')}",
            holds=lambda spec: _is_fitting(get(spec).resources),
        ),
        rules.Rule(
            name="memory-of-executors",
            field="runtime.executors.resources",
            message="has a memory limit below the memory request, expected at least as much",
            cel=f"!has(self.runtime.executors) || {_fits('self.runtime.executors.resources')}",
            holds=lambda spec: (
                (executors := get(spec).executors) is None or _is_fitting(executors.resources)
            ),
        ),
    )


def _fits(place: str) -> str:
    present = " && ".join(f"has({place}.{amounts}.memory)" for amounts in _AMOUNTS)
    request, limit = (f"quantity({place}.{amounts}.memory)" for amounts in _AMOUNTS)
    return f"!({present}) || {limit}.compareTo({request}) >= 0"


def _is_fitting(resources: Resources | None) -> bool:
    if resources is None:
        return True
    request, limit = resources.requests.memory, resources.limits.memory
    if request is None or limit is None:
        return True
    return fields.size_bytes(limit) >= fields.size_bytes(request)
