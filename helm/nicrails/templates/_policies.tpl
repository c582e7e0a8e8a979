{{/*
A ValidatingAdmissionPolicy on what the brokers' account asks for, and its binding:
dict "root" $ "name" "record" "rule" YAML of one resource rule "variables" YAML "validations" YAML.
*/}}
{{- define "nicrails.policy" -}}
{{- $name := include "nicrails.elsewhere" (list .root .name) -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ $name | quote }}
  labels:
    {{- include "nicrails.labels" .root | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      {{- .rule | nindent 6 }}
  matchConditions:
    - name: asked-by-a-broker
      expression: request.userInfo.username == {{ include "nicrails.brokerUser" .root | squote }}
  variables:
    # The API server puts it into every token that belongs to a pod.
    - name: node
      expression: >-
        has(request.userInfo.extra) && 'authentication.kubernetes.io/node-name' in request.userInfo.extra
        ? request.userInfo.extra['authentication.kubernetes.io/node-name'][0] : ''
    {{- with .variables }}
    {{- . | nindent 4 }}
    {{- end }}
  validations:
    {{- .validations | nindent 4 }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ $name | quote }}
  labels:
    {{- include "nicrails.labels" .root | nindent 4 }}
spec:
  policyName: {{ $name | quote }}
  validationActions: [Deny]
{{- end }}

{{- define "nicrails.brokerUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "nicrails.broker" . }}
{{- end }}

{{- define "nicrails.policy.onANode" -}}
- expression: variables.node != ''
  reason: Forbidden
  message: this token of a broker belongs to no pod on a Node, so it may change nothing
{{- end }}

{{- define "nicrails.policy.record.variables" -}}
- name: before
  expression: 'has(oldObject.data) ? oldObject.data : {}'
- name: after
  expression: 'has(object.data) ? object.data : {}'
- name: foreign
  expression: >-
    variables.before.filter(key, key != variables.node && !(key in variables.after && variables.after[key] == variables.before[key]))
    + variables.after.filter(key, key != variables.node && !(key in variables.before))
{{- end }}

{{- define "nicrails.policy.record.validations" -}}
{{ include "nicrails.policy.onANode" . }}
- expression: variables.foreign.size() == 0
  reason: Forbidden
  message: a broker may change only the key of the Node that it runs on
  messageExpression: >-
    'the broker on Node ' + variables.node + ' may change only the key of that Node, not ' + variables.foreign[0]
    + (variables.foreign.size() > 1 ? ' and ' + string(variables.foreign.size() - 1) + ' more' : '')
# managedFields are left out: a broker's patch empties them, and the server fills them.
- expression: >-
    object.?immutable == oldObject.?immutable && object.?binaryData == oldObject.?binaryData
    && object.metadata.?labels == oldObject.metadata.?labels
    && object.metadata.?annotations == oldObject.metadata.?annotations
    && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences
    && object.metadata.?finalizers == oldObject.metadata.?finalizers
  reason: Forbidden
  message: a broker may change only the key of the Node that it runs on
  messageExpression: >-
    'the broker on Node ' + variables.node
    + ' may change only the key of that Node, not labels, annotations, owners, finalizers, binaryData or immutable'
{{- end }}

{{- define "nicrails.policy.node.validations" -}}
{{ include "nicrails.policy.onANode" . }}
- expression: variables.node == '' || object.metadata.name == variables.node
  reason: Forbidden
  message: a broker may annotate only the Node that it runs on
  messageExpression: >-
    'the broker on Node ' + variables.node + ' may annotate only that Node, not ' + object.metadata.name
- expression: >-
    object.spec == oldObject.spec
    && object.metadata.?labels == oldObject.metadata.?labels
    && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences
    && object.metadata.?finalizers == oldObject.metadata.?finalizers
    && variables.before.all(key, key == variables.annotation || (key in variables.after && variables.after[key] == variables.before[key]))
    && variables.after.all(key, key == variables.annotation || key in variables.before)
  reason: Forbidden
  message: a broker may change nothing of its Node but its annotation
  messageExpression: >-
    'the broker on Node ' + variables.node + ' may change nothing of it but the annotation ' + variables.annotation
{{- end }}

{{- define "nicrails.policy.node.variables" -}}
- name: annotation
  expression: "'topograph.run/lldp-chassis-id'"
- name: before
  expression: 'has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {}'
- name: after
  expression: 'has(object.metadata.annotations) ? object.metadata.annotations : {}'
{{- end }}

{{- define "nicrails.policy.exec.validations" -}}
{{- $source := .Values.nodeMetadata.plugins.gpuNicRailMapping.gpuSource }}
{{- /* Kubernetes makes the names of a DaemonSet's pods so, and cuts a long one before the five characters. */}}
{{- $pods := printf "^%s[a-z0-9]{5}$" (printf "%s-" $source.daemonSet | trunc 58 | replace "." "[.]") -}}
{{ include "nicrails.policy.onANode" . }}
- expression: request.namespace == {{ squote $source.gpuOperatorNamespace }} && request.name.matches({{ squote $pods }})
  reason: Forbidden
  message: a broker may run commands only in pods of DaemonSet {{ $source.gpuOperatorNamespace }}/{{ $source.daemonSet }}
- expression: >-
    has(object.command) && object.command in [
    ['nvidia-smi', '--query-gpu=index,uuid,pci.bus_id', '--format=csv,noheader'],
    ['nvidia-smi', 'topo', '-m']]
  reason: Forbidden
  # For a command with line breaks, which a message may not have.
  message: a broker may not run this command, only "nvidia-smi topo -m" and its query of index, uuid and pci.bus_id
  messageExpression: >-
    'a broker may not run "' + (has(object.command) ? object.command.join(' ') : '')
    + '", only "nvidia-smi topo -m" and "nvidia-smi --query-gpu=index,uuid,pci.bus_id --format=csv,noheader"'
- expression: "!(has(object.stdin) && object.stdin) && !(has(object.tty) && object.tty)"
  reason: Forbidden
  message: a broker may run its commands only without standard input and without a terminal
{{- end }}
