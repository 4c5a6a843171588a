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

{{- /* The secret with the orchestrator's certificate; empty if it serves unencrypted. */}}
{{- define "escapement.tlsSecret" -}}
{{- if .Values.tls.existingSecret }}{{ .Values.tls.existingSecret }}{{ else if .Values.tls.certManager.issuerRef.name }}{{ include "escapement.name" . }}-server{{ end }}
{{- end }}

{{- /* The secret with what the worker trusts and shows; empty if it needs none. */}}
{{- define "escapement.workerTlsSecret" -}}
{{- if .Values.worker.tlsSecret }}{{ .Values.worker.tlsSecret }}{{ else if .Values.tls.certManager.issuerRef.name }}{{ include "escapement.name" . }}-worker{{ end }}
{{- end }}

{{- /* A Certificate of cert-manager: of the component, for these names, in the secret of the same name. */}}
{{- define "escapement.certificate" }}
{{- with .root.Values.tls.certManager }}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ $.name }}
  labels: {{ include "escapement.labels" (dict "root" $.root "component" $.component) | nindent 4 }}
spec:
  secretName: {{ $.name }}
  issuerRef: {{ toYaml .issuerRef | nindent 4 }}
  duration: {{ .duration }}
  renewBefore: {{ .renewBefore }}
  privateKey: { algorithm: ECDSA, size: 256, rotationPolicy: Always }
  usages: [digital signature, {{ $.usage }}]
  dnsNames: {{ toYaml $.dnsNames | nindent 4 }}
{{- end }}
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
{{- $encrypted := 0 }}
{{- range list .Values.tls.existingSecret .Values.tls.certManager.issuerRef.name .Values.tls.allowPlaintext }}{{ if . }}{{ $encrypted = add1 $encrypted }}{{ end }}{{ end }}
{{- if gt (int $encrypted) 1 }}{{ fail "tls: give one of existingSecret, certManager.issuerRef and allowPlaintext, not several" }}{{ end }}
{{- if lt (int $encrypted) 1 }}{{ fail "tls.existingSecret names the secret with tls.crt and tls.key, or tls.certManager.issuerRef who issues them; without either everybody in the cluster can read along, which tls.allowPlaintext: true says is meant" }}{{ end }}
{{- $given := 0 }}
{{- range list .Values.access.existingSecret .Values.access.policy .Values.access.allowAnonymous }}{{ if . }}{{ $given = add1 $given }}{{ end }}{{ end }}
{{- if ne (int $given) 1 }}{{ fail "access: give one of existingSecret (with policy.toml), policy, or allowAnonymous: true, which lets everybody do everything" }}{{ end }}
{{- if and .Values.worker.enabled .Values.tls.existingSecret (not .Values.worker.tlsSecret) }}{{ fail "worker.tlsSecret names the secret with ca.crt: the orchestrator speaks TLS" }}{{ end }}
{{- if and .Values.worker.keda.enabled .Values.worker.hpa.enabled }}{{ fail "worker: give one of keda and hpa, not both: each says how many there are" }}{{ end }}
{{- end }}
