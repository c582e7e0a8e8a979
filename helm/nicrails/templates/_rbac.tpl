{{/*
One role and its binding: dict "root" $ "component" "broker" "kind" "Role" or "ClusterRole" "name" … "namespace" … "rules" YAML;
instead of the component "account" and "accountNamespace".
*/}}
{{- define "nicrails.grant" -}}
{{- $account := .account }}
{{- if not $account }}
{{- $account = ternary (include "nicrails.broker" .root) (include "nicrails.observer" .root) (eq .component "broker") }}
{{- end -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .name | quote }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- include "nicrails.labels" .root | nindent 4 }}
rules:
  {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name | quote }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- include "nicrails.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name | quote }}
subjects:
  - kind: ServiceAccount
    name: {{ $account | quote }}
    namespace: {{ default .root.Release.Namespace .accountNamespace | quote }}
{{- end }}

{{/* Rules; docs/permissions.md has the same ones with the reasons, and a test compares what they allow. */}}
{{- define "nicrails.rules.broker" -}}
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ .Values.nodeMetadata.plugins.gpuNicRailMapping.configMapName | quote }}]
  verbs: [get, patch]
{{- end }}

{{- define "nicrails.rules.brokerGpus" -}}
- apiGroups: [apps]
  resources: [daemonsets]
  resourceNames: [{{ .Values.nodeMetadata.plugins.gpuNicRailMapping.gpuSource.daemonSet | quote }}]
  verbs: [get]
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
# A WebSocket is a GET; from Kubernetes 1.35 on it also needs create.
- apiGroups: [""]
  resources: [pods/exec]
  verbs: [get, create]
{{- end }}

{{- define "nicrails.rules.brokerNodes" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get{{ if include "nicrails.annotations" . }}, patch{{ end }}]
{{- end }}

{{- define "nicrails.rules.observer" -}}
# Creation can not be limited to a name.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ .Values.nodeMetadata.plugins.gpuNicRailMapping.configMapName | quote }}]
  verbs: [get, patch]
- apiGroups: [apps]
  resources: [deployments]
  resourceNames: [{{ include "nicrails.observer" . | quote }}]
  verbs: [get]
{{- end }}

{{- define "nicrails.rules.observerNodes" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch]
{{- end }}
