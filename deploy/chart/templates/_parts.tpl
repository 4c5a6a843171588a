{{- define "escapement.name" -}}
{{- if contains "escapement" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-escapement" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "escapement.selector" -}}
app.kubernetes.io/name: escapement
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "escapement.labels" -}}
{{ include "escapement.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "escapement.image" -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "escapement.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "escapement.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{- /* What is placed where, as the values say. */}}
{{- define "escapement.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Refuses what would serve a cluster by accident. */}}
{{- define "escapement.consent" -}}
{{- if and .Values.tls.existingSecret .Values.tls.allowPlaintext }}{{ fail "tls: give existingSecret or allowPlaintext, not both" }}{{ end }}
{{- if not (or .Values.tls.existingSecret .Values.tls.allowPlaintext) }}{{ fail "tls.existingSecret names the secret with tls.crt and tls.key; without it everybody in the cluster can read along, which tls.allowPlaintext: true says is meant" }}{{ end }}
{{- $given := 0 }}
{{- range list .Values.access.existingSecret .Values.access.policy .Values.access.allowAnonymous }}{{ if . }}{{ $given = add1 $given }}{{ end }}{{ end }}
{{- if ne (int $given) 1 }}{{ fail "access: give one of existingSecret (with policy.toml), policy, or allowAnonymous: true, which lets everybody do everything" }}{{ end }}
{{- if and .Values.worker.enabled .Values.tls.existingSecret (not .Values.worker.tlsSecret) }}{{ fail "worker.tlsSecret names the secret with ca.crt: the orchestrator speaks TLS" }}{{ end }}
{{- end }}
