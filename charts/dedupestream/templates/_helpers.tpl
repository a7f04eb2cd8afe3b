{{/* The name of the release's objects: the release's own, with the chart's if it does not say it. */}}
{{- define "dedupestream.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "dedupestream.operator" -}}
{{ include "dedupestream.fullname" . }}-operator
{{- end }}

{{- define "dedupestream.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "dedupestream.operator" .) -}}
{{- else -}}
{{- required "serviceAccount.create is false: name an existing one in serviceAccount.name" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{/* What selects the operator's pods. Never changes: a Deployment's selector is immutable. */}}
{{- define "dedupestream.selector" -}}
app.kubernetes.io/name: dedupestream
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "dedupestream.labels" -}}
{{ include "dedupestream.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: dedupestream
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* An image by its digest, or by its tag: takes a dict of image and the chart's root. */}}
{{- define "dedupestream.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end }}
