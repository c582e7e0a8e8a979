{{/* Names, labels and what is on. */}}

{{- define "nicrails.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 48 | trimSuffix "-" }}
{{- end }}

{{- define "nicrails.fullname" -}}
{{- $name := include "nicrails.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 48 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 48 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 48 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "nicrails.broker" -}}
{{ include "nicrails.fullname" . }}-broker
{{- end }}

{{/* The observer's Deployment and its account; brokers accept a ConfigMap only from this Deployment. */}}
{{- define "nicrails.observer" -}}
{{- with .Values.nodeMetadata.plugins.gpuNicRailMapping.observerDeployment }}
{{- . }}
{{- else }}
{{- include "nicrails.fullname" . }}-observer
{{- end }}
{{- end }}

{{- define "nicrails.settings" -}}
{{ include "nicrails.fullname" . }}-settings
{{- end }}

{{/* Outside the release's namespace a name carries it, so that two releases do not meet: (list $ "broker"). */}}
{{- define "nicrails.elsewhere" -}}
{{- $root := index . 0 }}
{{- printf "%s-%s.%s" (include "nicrails.fullname" $root) (index . 1) $root.Release.Namespace }}
{{- end }}

{{- define "nicrails.labels" -}}
{{- $own := dict
    "app.kubernetes.io/name" (include "nicrails.name" .)
    "app.kubernetes.io/instance" .Release.Name
    "app.kubernetes.io/version" .Chart.AppVersion
    "app.kubernetes.io/managed-by" .Release.Service
    "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") }}
{{- merge $own (omit .Values.commonLabels "app.kubernetes.io/component") | toYaml }}
{{- end }}

{{/* (list $ "broker") */}}
{{- define "nicrails.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "nicrails.name" $root | quote }}
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 | quote }}
{{- end }}

{{- define "nicrails.podLabels" -}}
{{- $root := index . 0 }}
{{- $own := include "nicrails.selector" . | fromYaml }}
{{- merge $own (index $root.Values (index . 1)).podLabels $root.Values.commonLabels | toYaml }}
{{- end }}

{{/* Features: "true" or "". */}}
{{- define "nicrails.records" -}}
{{- if .Values.nodeMetadata.plugins.gpuNicRailMapping.enabled }}true{{ end }}
{{- end }}

{{- define "nicrails.annotations" -}}
{{- if eq .Values.nodeMetadata.provider.name "lldp" }}true{{ end }}
{{- end }}

{{- define "nicrails.anything" -}}
{{- if or (include "nicrails.records" .) (include "nicrails.annotations" .) }}true{{ end }}
{{- end }}

{{- define "nicrails.gpus" -}}
{{- $source := .Values.nodeMetadata.plugins.gpuNicRailMapping.gpuSource }}
{{- if and (include "nicrails.records" .) $source }}
{{- if ne $source.gpuNode "never" }}true{{ end }}
{{- end }}
{{- end }}
