"""The chart, rendered and installed by the real Helm."""

import copy
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

CHART: Final = Path(__file__).parents[3] / "charts" / "hudi-operator"
RELEASE: Final = "hudi-operator"

Manifest = dict[str, Any]
Values = Mapping[str, Any]

MINIMAL: Final[Values] = {"config": {"dataRoots": ["file:///data"]}}
IN_RELEASE_NAMESPACE: Final[Values] = {"jobs": {"serviceAccount": {"inReleaseNamespace": True}}}
"""What tells that tables may be in the namespace of the release."""
DIGEST: Final = "sha256:" + 64 * "a"


def namespaces_only(*namespaces: str) -> Values:
    """Return values of an installation without rights on the whole cluster."""
    return {
        "config": {"dataRoots": ["s3://lake/tables"], "watchNamespaces": list(namespaces)},
        "rbac": {"scope": "Namespaces"},
        "crds": {"install": False},
    }


def everything(namespace: str) -> Values:
    """Return values in which all that can be said is said."""
    return {
        "image": {
            "repository": "registry.example:5000/team/hudi-operator",
            "digest": DIGEST,
            "pullPolicy": "Always",
            "pullSecrets": ["registry"],
        },
        "config": {
            "dataRoots": ["file:///data", "s3://lake"],
            "watchNamespaces": [namespace],
            "serviceAccounts": {"allowed": ["other"]},
            "observers": {"idleInterval": "1m", "threads": 4},
            "limits": {"runsKept": 3},
        },
        "replicas": 3,
        "serviceAccount": {"name": "runner", "annotations": {"cloud.example/role": "operator"}},
        "jobs": {
            "serviceAccount": {
                "name": "lake",
                "annotations": {"cloud.example/role": "lake"},
                "inReleaseNamespace": True,
            }
        },
        "crds": {"keep": False},
        "networkPolicy": {
            "enabled": True,
            "metricsFrom": [{"namespaceSelector": {"matchLabels": {"team": "metrics"}}}],
        },
        "podAnnotations": {"prometheus.io/scrape": "true"},
        "podLabels": {"team": "data"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "system-cluster-critical",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Helm:
    """The program, and the cluster that it works on.

    Attributes:
        program: Its path.
        folder: A folder of the test, for what Helm reads and keeps.
        kubeconfig: The way to the cluster; None where templates are rendered only.
    """

    program: str
    folder: Path
    kubeconfig: Path | None = None

    def run(self, command: str, *arguments: str, values: Values = MINIMAL) -> str:
        """Run a command on the chart, and return what it prints.

        Raises:
            AssertionError: It failed; the message is what it said.
        """
        done = self.tried(command, *arguments, values=values)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def tried(
        self, command: str, *arguments: str, values: Values, chart: Path = CHART
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a chart."""
        file = self.folder / "values.yaml"
        file.write_text(yaml.safe_dump(copy.deepcopy(dict(values))))
        words = [self.program, command, *_place(command, chart), *arguments]
        if command != "uninstall":
            words += ["--values", str(file)]
        if self.kubeconfig is not None:
            words += ["--kubeconfig", str(self.kubeconfig)]
        # Nothing of the user's, and nothing left behind.
        home = {"HOME": str(self.folder)}
        return subprocess.run(words, env=home, capture_output=True, text=True, check=False)

    def rendered(self, values: Values, namespace: str = "hudi") -> Sequence[Manifest]:
        """Return the manifests that values make."""
        text = self.run(
            "template", "--namespace", namespace, "--kube-version", "1.34", values=values
        )
        return [document for document in yaml.safe_load_all(text) if document]


def _place(command: str, chart: Path) -> Sequence[str]:
    if command == "lint":
        return ["--kube-version", "1.34", str(chart)]
    return [RELEASE] if command == "uninstall" else [RELEASE, str(chart)]
