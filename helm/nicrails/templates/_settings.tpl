{{/* The file that both programs read: the values without what is the chart's own and what is not set. */}}

{{- define "nicrails.settingsFile" -}}
{{- $mapping := deepCopy .Values.nodeMetadata.plugins.gpuNicRailMapping }}
{{- $_ := set $mapping "observerDeployment" (include "nicrails.observer" .) }}
{{- if include "nicrails.records" . }}
{{- if include "nicrails.gpus" . }}
{{- if not $mapping.gpuSource.container }}
{{- $_ := unset $mapping.gpuSource "container" }}
{{- end }}
{{- else }}
{{- $_ := set $mapping "gpuSource" (dict "gpuNode" "never") }}
{{- end }}
{{- else }}
{{- $mapping = dict "enabled" false }}
{{- end }}
{{- dict
    "nodeMetadata" (dict
        "plugins" (dict "gpuNicRailMapping" $mapping)
        "provider" .Values.nodeMetadata.provider)
    "host" .Values.host
    "server" .Values.server
    "logging" .Values.logging
    "observer" (pick .Values.observer "checkInterval" "fullInterval" "batchSize" "brake")
    | toYaml }}
{{- end }}
