{{/* Name of the release's objects: the release's name, with the chart's name appended unless it contains it. */}}
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
{{- required "serviceAccount.create is false: name an existing ServiceAccount in serviceAccount.name" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{/* Selector of the operator's pods. It must never change: a Deployment's selector is immutable. */}}
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

{{/*
Labels or annotations with those of a value; a key of both is rendered once, as in the value.
Takes a dict: own (a text of YAML), and more.
*/}}
{{- define "dedupestream.with" -}}
{{- toYaml (merge (dict) (.more | default dict) (fromYaml .own)) -}}
{{- end }}

{{/* Image reference by digest, else by tag. Takes a dict: image, and root (the chart's context). */}}
{{- define "dedupestream.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/*
Port at which workers serve probes alone, if the worker image has the operator's tag. It is empty for any other image:
its workers may be too old to have the port, and would never become ready.
*/}}
{{- define "dedupestream.workerProbePort" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- if and (not .Values.worker.image.digest) (eq $tag (.Values.worker.image.tag | default .Chart.AppVersion)) -}}
8081
{{- end -}}
{{- end }}

{{/* Namespaces that the operator watches, as a JSON list; empty: all. */}}
{{- define "dedupestream.namespaces" -}}
{{- if or .Values.watch.namespaces .Values.rbac.clusterScope -}}
{{ toJson .Values.watch.namespaces }}
{{- else -}}
{{ toJson (list .Release.Namespace) }}
{{- end -}}
{{- end }}

{{/* "true" if the operator moves workers away from nodes that are not ready. */}}
{{- define "dedupestream.failover" -}}
{{- if and .Values.failover.enabled .Values.rbac.clusterScope -}}true{{- end -}}
{{- end }}

{{/* User and groups of the workers' pods as JSON. Helm removes a value that is null, so it is written again. */}}
{{- define "dedupestream.workerIds" -}}
{{- $ids := dict -}}
{{- range list "runAsUser" "runAsGroup" "fsGroup" -}}
{{- $id := get $.Values.podIds . -}}
{{- $_ := set $ids . (ternary nil ($id | default 0 | int64) (or (kindIs "invalid" $id) (kindIs "string" $id))) -}}
{{- end -}}
{{- toJson $ids -}}
{{- end }}
