{{- define "sandcell.name" -}}
{{- if contains "sandcell" .Release.Name }}{{ .Release.Name | trunc 53 | trimSuffix "-" }}{{ else }}{{ printf "%s-sandcell" .Release.Name | trunc 53 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "sandcell.selector" -}}
app.kubernetes.io/name: sandcell
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sandcell.metadata" -}}
name: {{ include "sandcell.name" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "sandcell.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "sandcell.claim" -}}
accessModes: [ReadWriteOnce]
{{- with .Values.persistence.storageClass }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests:
    storage: {{ .Values.persistence.size }}
{{- end }}
