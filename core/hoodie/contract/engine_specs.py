"""What a run's data-parallel work is executed by: threads, or Spark with or without pods."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class EngineKind(enum.Enum):
    """What runs the data-parallel part."""

    LOCAL = "local"
    SPARK = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesExecutors:
    """Executors as pods, made by the job as Spark's driver, which is in a pod itself.

    Attributes:
        namespace: Theirs, and the driver's.
        instances: How many.
        name_prefix: Their names begin with it; at most 47 characters.
        image: Theirs.
        template_path: A pod template, in the driver's pod, for everything else.
        cores: Tasks at one time, of each.
        cpu_request: A quantity; None leaves it to Spark.
        heap_mib: Of each JVM.
        overhead_mib: What its pod gets beside the heap, for Python and for native memory.
        labels: Of each pod.
    """

    namespace: str
    instances: int
    name_prefix: str
    image: str
    template_path: str
    cores: int
    cpu_request: str | None
    heap_mib: int
    overhead_mib: int
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec:
    """What to run on.

    Attributes:
        kind: Threads of the job's own process, or Spark.
        parallelism: Threads, or Spark's local cores; None takes the machine's.
        spark_conf: Spark properties beside those that the job sets.
        executors: The pods of Spark's tasks; None where they run in the job's own process.
    """

    kind: EngineKind = EngineKind.LOCAL
    parallelism: int | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    executors: KubernetesExecutors | None = None
