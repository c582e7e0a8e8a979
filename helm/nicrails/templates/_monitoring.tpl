{{/* What is scraped of a pod, for PodMonitor and ServiceMonitor; takes the values of one of them. */}}
{{- define "nicrails.endpoint" -}}
- port: http
  path: /metrics
  {{- with .interval }}
  interval: {{ . | quote }}
  {{- end }}
  relabelings:
    - sourceLabels: [__meta_kubernetes_pod_node_name]
      targetLabel: node
{{- end }}

{{/* Both programs' pods. */}}
{{- define "nicrails.programs" -}}
app.kubernetes.io/name: {{ include "nicrails.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}
