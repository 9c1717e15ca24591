"""A kubelet without a node: it does in a lake what the pods of runs are for, and tells their ends.

For tests on an API server alone, of operators that may be killed: what a run does, it does whoever
started it. Pods that nothing schedules (their volume is not there) wait until `work` finds them.
"""

import dataclasses
from typing import Any, Final

from hoodie.contract import job_results, job_specs
from hoodie.model import table_config
from hoodie_operator.api import resources
from hoodie_operator.manifests import runs as run_manifests
from support.operators import cluster_helpers, cluster_place

MISSING_VOLUME: Final = {"name": "lake", "persistentVolumeClaim": "none", "mountPath": "/data"}

_JOB: Final = "batch.kubernetes.io/job-name"


@dataclasses.dataclass
class PretendedKubelet:
    """What it runs for, and what it has run.

    Attributes:
        place: Whose pods.
        lake: Where they work.
        ran: The uids of the pods that worked, by the name of their Job.
    """

    place: cluster_place.Place
    lake: cluster_helpers.Lake
    ran: dict[str, set[str]] = dataclasses.field(default_factory=dict)

    def work(self) -> None:
        """Run every pod of a run that waits, to its end."""
        for pod in self.place.items(resources.POD.path(self.place.namespace)):
            is_going = "deletionTimestamp" in pod["metadata"]
            is_run = _JOB in pod["metadata"]["labels"]
            if is_run and pod["status"]["phase"] == "Pending" and not is_going:
                self._run(pod)

    def _run(self, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        job = metadata["labels"][_JOB]
        self.ran.setdefault(job, set()).add(metadata["uid"])
        (told_by,) = [
            volume["configMap"]["name"]
            for volume in pod["spec"]["volumes"]
            if "configMap" in volume and not volume["configMap"].get("optional")
        ]
        told = self.place.api.get(resources.CONFIG_MAP.path(self.place.namespace, told_by))
        spec = job_specs.decode_spec(told["data"][run_manifests.SPEC].encode(), job)
        config = table_config.from_properties(spec.table_properties)
        by = cluster_helpers.By(writer_id=spec.writer_id, action_id=spec.action_id)
        self.lake.do(spec.work, spec.table_uri, config, by)
        result = job_results.encode_result(job_results.JobResult(attempt=spec.attempt)).decode()
        path = resources.POD.path(self.place.namespace, metadata["name"])
        self.place.api.merge(f"{path}/status", {"status": _ended(pod, result)})


def _ended(pod: dict[str, Any], message: str) -> dict[str, Any]:
    container = pod["spec"]["containers"][0]
    terminated = {
        "exitCode": 0,
        "reason": "Completed",
        "message": message,
        "startedAt": pod["metadata"]["creationTimestamp"],
        "finishedAt": pod["metadata"]["creationTimestamp"],
    }
    status = {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": terminated},
    }
    return {"phase": "Succeeded", "containerStatuses": [status]}
