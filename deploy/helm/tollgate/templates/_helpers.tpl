{{- define "tollgate.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "tollgate.account" -}}
{{- default (include "tollgate.name" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "tollgate.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tollgate.labels" -}}
{{ include "tollgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* The rule for Secrets and ConfigMaps: the gateway reads those that its objects refer to, each by its name. */}}
{{- define "tollgate.secrets" -}}
- apiGroups: [""]
  resources: [secrets, configmaps]
  verbs: [list, watch]
{{- end -}}

{{/* The configuration file: the one of the values, with the cluster as its source. */}}
{{- define "tollgate.config" -}}
{{- $source := dict "addresses" "${POD_IP}" "controller" .Values.kubernetes.controller "lease" (include "tollgate.name" .) -}}
{{- if .Values.kubernetes.namespaces -}}
{{- $_ := set $source "namespaces" .Values.kubernetes.namespaces -}}
{{- end -}}
{{- $drain := dict "timeouts" (dict "drain" (printf "%ds" (int .Values.drain.timeoutSeconds))) -}}
{{- $config := mergeOverwrite $drain (deepCopy .Values.config) (dict "kubernetes" $source) -}}
{{- toYaml $config -}}
{{- end -}}
