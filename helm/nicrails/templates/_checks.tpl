{{/* What values.schema.json can not say, and what it says for those who skip it. */}}

{{- define "nicrails.check" -}}
{{- $mapping := .Values.nodeMetadata.plugins.gpuNicRailMapping }}
{{- $at := "nodeMetadata.plugins.gpuNicRailMapping" }}
{{- $source := default dict $mapping.railSource }}
{{- $lldp := default dict $source.hostLLDP }}
{{- if eq (toString $source.name) "xplane" }}
{{- fail (printf "%s.railSource.name: xplane is not supported yet: there is no supported API, transport, authentication or host PCI mapping for it; use host-lldp" $at) }}
{{- end }}
{{- if include "nicrails.records" . }}
{{- if not $source.name }}
{{- fail (printf "%s.enabled is true, but there is no source of rails: set railSource.name to host-lldp, and railSource.hostLLDP.interfaceRegex and railID to your site's names" $at) }}
{{- end }}
{{- if ne $source.name "host-lldp" }}
{{- fail (printf "%s.railSource.name: expected host-lldp, found %q" $at $source.name) }}
{{- end }}
{{- if not (and $lldp.interfaceRegex $lldp.railID) }}
{{- fail (printf "%s.railSource.hostLLDP: interfaceRegex and railID must be set; they have no default, since names of interfaces and rails are the site's" $at) }}
{{- end }}
{{- include "nicrails.interfaceRegex.of.railSource.hostLLDP" $lldp }}
{{- if eq $mapping.configMapName (include "nicrails.settings" .) }}
{{- fail (printf "%s.configMapName: %s is the ConfigMap of the settings; choose another name for the records" $at $mapping.configMapName) }}
{{- end }}
{{- end }}
{{- if include "nicrails.annotations" . }}
{{- include "nicrails.interfaceRegex.of.provider.lldp" .Values.nodeMetadata.provider.lldp }}
{{- end }}
{{- if and .Values.faker.enabled (not $mapping.gpuSource) }}
{{- fail (printf "faker.enabled is true, but there is no GPU Operator to stand in for: set %s.gpuSource" $at) }}
{{- end }}
{{- $folder := clean .Values.broker.hostPaths.lldpd }}
{{- if and (has $folder (list "/" "/run" "/var/run" "/var")) (not .Values.broker.lldpdGroup) }}
{{- fail (printf "broker.hostPaths.lldpd: %s also holds the container runtime's socket, and the broker would run as root: let lldpd put its socket into a folder of its own (DAEMON_ARGS=\"-u /run/lldpd/lldpd.socket\"), or set broker.lldpdGroup" $folder) }}
{{- end }}
{{- $sysfs := clean .Values.host.sysfsRoot }}
{{- $socket := dir .Values.host.lldpdSocket }}
{{- if or (has $sysfs (list "/" "/sys")) (hasPrefix "/sys/" $sysfs) }}
{{- fail (printf "host.sysfsRoot: %s is the container's own; the host's /sys is mounted elsewhere, such as /host/sys" $sysfs) }}
{{- end }}
{{- if or (eq $socket "/") (eq $socket $sysfs) (hasPrefix (print $sysfs "/") $socket) (hasPrefix (print $socket "/") $sysfs) }}
{{- fail (printf "host.lldpdSocket: its folder %s needs a place of its own beside host.sysfsRoot %s" $socket $sysfs) }}
{{- end }}
{{- end }}

{{/* These have long names because an error of mustRegexMatch, which is RE2's own, is told with the name. */}}
{{- define "nicrails.interfaceRegex.of.railSource.hostLLDP" -}}
{{- $_ := mustRegexMatch .interfaceRegex "" }}
{{- end }}

{{- define "nicrails.interfaceRegex.of.provider.lldp" -}}
{{- $_ := mustRegexMatch .interfaceRegex "" }}
{{- end }}
