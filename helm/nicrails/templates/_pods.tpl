{{/* What the pods of both programs have in common. */}}

{{/* (list $ "broker") */}}
{{- define "nicrails.podAnnotations" -}}
{{- $root := index . 0 }}
{{- $own := dict "checksum/settings" (include "nicrails.settingsFile" $root | sha256sum) }}
{{- if $root.Values.metrics.annotations.enabled }}
{{- $own = merge $own (include "nicrails.scrapeAnnotations" $root.Values.server.port | fromYaml) }}
{{- end }}
{{- merge $own (index $root.Values (index . 1)).podAnnotations | toYaml }}
{{- end }}

{{/* Takes the port. */}}
{{- define "nicrails.scrapeAnnotations" -}}
prometheus.io/path: /metrics
prometheus.io/port: {{ toString . | quote }}
prometheus.io/scrape: "true"
{{- end }}

{{/* (list $ "broker") */}}
{{- define "nicrails.image" -}}
{{- $image := (index (index . 0).Values (index . 1)).image }}
{{- if $image.digest }}
{{- printf "%s@%s" $image.repository $image.digest }}
{{- else }}
{{- printf "%s:%s" $image.repository (default (index . 0).Chart.AppVersion $image.tag) }}
{{- end }}
{{- end }}

{{- define "nicrails.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
{{- end }}

{{- define "nicrails.brokerContainerSecurity" -}}
{{- $security := include "nicrails.containerSecurity" . | fromYaml }}
{{- if not .Values.broker.lldpdGroup }}
{{- $_ := set $security.capabilities "add" (list "DAC_OVERRIDE") }}
{{- end }}
{{- with .Values.broker.seLinuxOptions }}
{{- $_ := set $security "seLinuxOptions" . }}
{{- end }}
{{- toYaml $security }}
{{- end }}

{{- define "nicrails.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* The broker's: lldpd's socket is 0770 _lldpd:_lldpd, so it takes its group, or root that permissions do not hold back. */}}
{{- define "nicrails.brokerSecurity" -}}
{{- if .Values.broker.lldpdGroup }}
{{- include "nicrails.podSecurity" . }}
supplementalGroups: [{{ int64 .Values.broker.lldpdGroup }}]
{{- else -}}
runAsNonRoot: false
runAsUser: 0
runAsGroup: 0
seccompProfile:
  type: RuntimeDefault
{{- end }}
{{- end }}

{{- define "nicrails.probes" -}}
# Liveness asks whether the program turns; a bad cable must not make the kubelet kill it in a loop.
startupProbe:
  httpGet: {path: /livez, port: http}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 30
livenessProbe:
  httpGet: {path: /livez, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 2
{{- end }}

{{- define "nicrails.commonEnvironment" -}}
- name: POD_NAMESPACE
  valueFrom:
    fieldRef: {fieldPath: metadata.namespace}
{{- end }}
