{{/* The faker: one workload for each of its services, all in the GPU Operator's namespace. */}}

{{- define "nicrails.faker.namespace" -}}
{{- (default dict .Values.nodeMetadata.plugins.gpuNicRailMapping.gpuSource).gpuOperatorNamespace }}
{{- end }}

{{/* (list $ "topology") */}}
{{- define "nicrails.faker.name" -}}
{{ include "nicrails.fullname" (index . 0) }}-faker-{{ index . 1 }}
{{- end }}

{{/* A request for the notes; profiles are the product's own, and this is one of the default pool's. */}}
{{- define "nicrails.faker.example" -}}
{version: v1, mig-configs: {any: [{devices: [0], mig-enabled: true, mig-devices: {"1g.5gb": 7}}]}}
{{- end }}

{{- define "nicrails.faker.environment" -}}
- name: NODE_NAME
  valueFrom:
    fieldRef: {fieldPath: spec.nodeName}
- name: TOPOLOGY_CM_NAME
  value: {{ .Values.faker.topology.name | quote }}
- name: TOPOLOGY_CM_NAMESPACE
  value: {{ include "nicrails.faker.namespace" . | quote }}
{{- end }}

{{/*
A service with its account: dict "root" $ "service" "topology" "kind" "Deployment" "name" … "container" … "args" (list …) "port" 8080
and, where needed, "host" true (root, for folders of the host), "mounts" YAML, "volumes" YAML, "env" YAML, "affinity" YAML,
"nodeSelector" YAML.
*/}}
{{- define "nicrails.faker.workload" -}}
{{- $account := include "nicrails.faker.name" (list .root .service) -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $account | quote }}
  namespace: {{ include "nicrails.faker.namespace" .root | quote }}
  labels:
    {{- include "nicrails.labels" .root | nindent 4 }}
automountServiceAccountToken: false
---
apiVersion: apps/v1
kind: {{ .kind }}
metadata:
  name: {{ .name | quote }}
  namespace: {{ include "nicrails.faker.namespace" .root | quote }}
  labels:
    {{- include "nicrails.labels" .root | nindent 4 }}
    app.kubernetes.io/component: faker-{{ .service }}
spec:
  {{- if eq .kind "Deployment" }}
  replicas: 1
  strategy:
    type: Recreate
  {{- end }}
  selector:
    matchLabels:
      {{- include "nicrails.selector" (list .root (print "faker-" .service)) | nindent 6 }}
  template:
    metadata:
      labels:
        {{- merge (include "nicrails.selector" (list .root (print "faker-" .service)) | fromYaml) .root.Values.commonLabels | toYaml | nindent 8 }}
      {{- if .root.Values.metrics.annotations.enabled }}
      annotations:
        {{- include "nicrails.scrapeAnnotations" .port | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ $account | quote }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      terminationGracePeriodSeconds: 15
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- if .host }}
        runAsNonRoot: false
        runAsUser: 0
        runAsGroup: 0
        seccompProfile:
          type: RuntimeDefault
        {{- else }}
        {{- include "nicrails.podSecurity" . | nindent 8 }}
        {{- end }}
      containers:
        - name: {{ .container | quote }}
          image: {{ include "nicrails.image" (list .root "faker") | quote }}
          imagePullPolicy: {{ .root.Values.faker.image.pullPolicy }}
          args: {{ prepend .args .service | toJson }}
          env:
            {{- include "nicrails.faker.environment" .root | nindent 12 }}
            {{- with .env }}
            {{- . | nindent 12 }}
            {{- end }}
          ports:
            - name: http
              containerPort: {{ .port }}
          {{- include "nicrails.probes" .root | nindent 10 }}
          {{- with .root.Values.faker.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          securityContext:
            {{- include "nicrails.containerSecurity" .root | nindent 12 }}
          {{- with .mounts }}
          volumeMounts:
            {{- . | nindent 12 }}
          {{- end }}
      {{- with .volumes }}
      volumes:
        {{- . | nindent 8 }}
      {{- end }}
      nodeSelector:
        kubernetes.io/os: linux
        {{- with .nodeSelector }}
        {{- . | nindent 8 }}
        {{- end }}
      {{- if eq .kind "DaemonSet" }}
      {{- with .root.Values.faker.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      # Only where the topology has a pool; a DaemonSet of the GPU Operator selects by labels of its own.
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
              - matchExpressions:
                  - {key: {{ .root.Values.faker.topology.nodePoolLabelKey | quote }}, operator: Exists}
                  # Nodes without a kubelet run no pods: KWOK's by their usual label, and those of fakeNodes.
                  - {key: type, operator: NotIn, values: [kwok]}
                  {{- $label := splitn "=" 2 .root.Values.faker.fakeNodes.label }}
                  - {key: {{ $label._0 | quote }}, operator: NotIn, values: [{{ $label._1 | quote }}]}
      {{- end }}
{{- end }}

{{/* Rules of roles in the GPU Operator's namespace, and of cluster roles; docs/permissions.md has them with the reasons. */}}
{{- define "nicrails.faker.rules.topology" -}}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}

{{- define "nicrails.faker.rules.device-plugin" -}}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [list, watch, patch]
{{- end }}

{{- define "nicrails.faker.rules.mig" -}}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, patch]
{{- if eq .Values.faker.mig.onChange "restart" }}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, delete]
{{- end }}
{{- end }}

{{- define "nicrails.faker.rules.nodes" -}}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, patch]
{{- end }}

{{- define "nicrails.faker.rules.metrics" -}}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, patch]
{{- end }}

{{- define "nicrails.faker.clusterRules.topology" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch]
{{- end }}

{{- define "nicrails.faker.clusterRules.mig" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch, patch]
# The condition that tells of a Node whose GPUs are not alike.
- apiGroups: [""]
  resources: [nodes/status]
  verbs: [patch]
{{- end }}

{{- define "nicrails.faker.clusterRules.nodes" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch, patch]
- apiGroups: [""]
  resources: [nodes/status]
  verbs: [patch]
{{- end }}

{{/* (list $ "topology" "cluster" or "") */}}
{{- define "nicrails.faker.grant" -}}
{{- $root := index . 0 }}{{ $service := index . 1 }}
{{- $account := include "nicrails.faker.name" (list $root $service) }}
{{- $namespace := include "nicrails.faker.namespace" $root }}
{{- if index . 2 }}
{{- include "nicrails.grant" (dict "root" $root "account" $account "accountNamespace" $namespace "kind" "ClusterRole" "name" (include "nicrails.elsewhere" (list $root (print "faker-" $service))) "rules" (include (print "nicrails.faker.clusterRules." $service) $root)) }}
{{- else }}
{{- include "nicrails.grant" (dict "root" $root "account" $account "accountNamespace" $namespace "kind" "Role" "name" $account "namespace" $namespace "rules" (include (print "nicrails.faker.rules." $service) $root)) }}
{{- end }}
{{- end }}

{{/* Events about Nodes are in the namespace default: (list $ "mig"). */}}
{{- define "nicrails.faker.events" -}}
{{- $root := index . 0 }}{{ $service := index . 1 }}
{{- include "nicrails.grant" (dict "root" $root "account" (include "nicrails.faker.name" (list $root $service)) "accountNamespace" (include "nicrails.faker.namespace" $root) "kind" "Role" "name" (include "nicrails.elsewhere" (list $root (print "faker-" $service))) "namespace" "default" "rules" "- apiGroups: [\"\"]\n  resources: [events]\n  verbs: [create]") }}
{{- end }}
