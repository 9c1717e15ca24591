{{/* Name of everything of the release in its namespace. */}}
{{- define "hudi-operator.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Name of what belongs to the cluster: two releases in two namespaces must not share it. */}}
{{- define "hudi-operator.clusterName" -}}
{{- printf "%s.%s" .Release.Namespace (include "hudi-operator.name" .) -}}
{{- end -}}

{{- define "hudi-operator.serviceAccountName" -}}
{{- default (include "hudi-operator.name" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "hudi-operator.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{/* `helm` is not `hudi-operator`: by that value the operator finds what it made itself. */}}
{{- define "hudi-operator.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: {{ .Chart.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "hudi-operator.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The configuration file: what is said in config, and what follows from the other values. */}}
{{- define "hudi-operator.config" -}}
{{- $image := dict "name" (include "hudi-operator.image" .) "pullPolicy" .Values.image.pullPolicy "pullSecrets" .Values.image.pullSecrets -}}
{{- $derived := dict "image" $image "serviceAccounts" (dict "default" .Values.jobs.serviceAccount.name) -}}
{{- mergeOverwrite $derived (deepCopy .Values.config) | toYaml -}}
{{- end -}}

{{/* The namespaces of the account of runs, as JSON. */}}
{{- define "hudi-operator.jobNamespaces" -}}
{{- $account := .Values.jobs.serviceAccount -}}
{{- $found := default (default (list) .Values.config.watchNamespaces) $account.namespaces | uniq -}}
{{- if and $account.create (not $account.inReleaseNamespace) (has .Release.Namespace $found) -}}
{{- fail (printf "jobs.serviceAccount would be created in %s, the namespace of the release: a Spark driver there could create a pod with the operator's account. Install the release in a namespace without tables, or set jobs.serviceAccount.inReleaseNamespace" .Release.Namespace) -}}
{{- end -}}
{{- $found | toJson -}}
{{- end -}}

{{/* What the operator may do where tables are. It reads no Secret and no data of a table. */}}
{{- define "hudi-operator.rules" -}}
- apiGroups: [hudi.dev]
  resources: [huditables, writers, compactionpolicies, retentionpolicies, savepoints, indexrequests, lockproviders, tableactions]
  verbs: [get, list, watch]
- apiGroups: [hudi.dev]
  resources: [huditables/status, writers/status, compactionpolicies/status, retentionpolicies/status, savepoints/status, indexrequests/status, lockproviders/status, tableactions/status]
  verbs: [get, patch]
{{- /* An owner whose deletion waits for what it owns: asked for by OwnerReferencesPermissionEnforcement. */}}
- apiGroups: [hudi.dev]
  resources: [huditables/finalizers, writers/finalizers, compactionpolicies/finalizers, retentionpolicies/finalizers, savepoints/finalizers, indexrequests/finalizers, lockproviders/finalizers, tableactions/finalizers]
  verbs: [update]
{{- /* The finalizer of tables whose data goes with them, and of savepoints and indexes likewise. */}}
- apiGroups: [hudi.dev]
  resources: [huditables, savepoints, indexrequests]
  verbs: [patch]
{{- /* Policies make actions, and forget old ones. */}}
- apiGroups: [hudi.dev]
  resources: [tableactions]
  verbs: [create, patch, delete]
{{- /* Runs. */}}
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create, delete]
{{- /* Observers, and the tokens by which they know the operator. */}}
- apiGroups: [apps]
  resources: [deployments]
  verbs: [list, create, patch, delete]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, delete]
{{- /* Lock servers; their claims and pods go with them. */}}
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [create, patch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [create, patch]
- apiGroups: [""]
  resources: [services]
  verbs: [create, patch, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [get, create, patch]
{{- end -}}
