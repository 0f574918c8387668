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

{{/* The account that reads the cluster. */}}
{{- define "tollgate.reader" -}}
{{- include "tollgate.account" . -}}{{- if eq .Values.mode "fleet" -}}-controller{{- end -}}
{{- end -}}

{{- define "tollgate.controller.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-controller
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tollgate.controller.labels" -}}
{{ include "tollgate.controller.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "tollgate.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
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

{{/* The cluster as a source. */}}
{{- define "tollgate.source" -}}
{{- $source := dict "addresses" "${POD_IP}" "controller" .Values.kubernetes.controller "lease" (include "tollgate.name" .) -}}
{{- if .Values.kubernetes.namespaces -}}
{{- $_ := set $source "namespaces" .Values.kubernetes.namespaces -}}
{{- end -}}
{{- if eq .Values.mode "fleet" -}}
{{- $service := printf "${%s_SERVICE_HOST}" (include "tollgate.name" . | upper | replace "-" "_") -}}
{{- $_ := set $source "addresses" (default $service .Values.fleet.controller.addresses) -}}
{{- end -}}
{{- /* The gateway sees the Service only in namespaces that it watches. Given addresses come first. */ -}}
{{- $given := and (eq .Values.mode "fleet") .Values.fleet.controller.addresses -}}
{{- $spaces := .Values.kubernetes.namespaces -}}
{{- if and (not $given) (or (not $spaces) (has .Release.Namespace $spaces)) -}}
{{- $_ := set $source "publish_service" (printf "%s/%s" .Release.Namespace (include "tollgate.name" .)) -}}
{{- end -}}
{{- with .Values.kubernetes.defaultCertificate -}}
{{- $_ := set $source "default_certificate" . -}}
{{- end -}}
{{- if .Values.kubernetes.services.type -}}
{{- $pods := printf "%s/%s-gateways" .Release.Namespace (include "tollgate.name" .) -}}
{{- $_ := set $source "services" (dict "type" .Values.kubernetes.services.type "pods" $pods) -}}
{{- end -}}
{{- toYaml $source -}}
{{- end -}}

{{/* The configuration file: the one of the values, with the cluster or the controller as its source. */}}
{{- define "tollgate.config" -}}
{{- $source := dict -}}
{{- if eq .Values.mode "fleet" -}}
{{- $controller := dict "endpoints" (printf "https://%s-controller:9920" (include "tollgate.name" .)) -}}
{{- $_ := set $controller "name" "${POD_NAME}" -}}
{{- $_ := set $controller "bind" "${POD_IP}" -}}
{{- $_ := set $controller "cache" "/var/cache/tollgate/controller.json" -}}
{{- $source = dict "watch" true "controller" (mergeOverwrite $controller (include "tollgate.certificates" . | fromYaml)) -}}
{{- else -}}
{{- $source = dict "kubernetes" (include "tollgate.source" . | fromYaml) -}}
{{- end -}}
{{- $drain := dict "timeouts" (dict "drain" (printf "%ds" (int .Values.drain.timeoutSeconds))) -}}
{{- $config := mergeOverwrite $drain (deepCopy .Values.config) $source -}}
{{- toYaml $config -}}
{{- end -}}

{{/* The configuration file of a fleet's controller. */}}
{{- define "tollgate.controller.config" -}}
{{- $fleet := mergeOverwrite (dict "listen" 9920) (include "tollgate.certificates" . | fromYaml) -}}
{{- $source := dict "watch" true "kubernetes" (include "tollgate.source" . | fromYaml) "fleet" $fleet -}}
{{- toYaml (mergeOverwrite (deepCopy .Values.fleet.controller.config) $source) -}}
{{- end -}}

{{/* The files of a mounted Secret. */}}
{{- define "tollgate.certificates" -}}
certificate: /etc/tollgate-tls/tls.crt
key: /etc/tollgate-tls/tls.key
ca: /etc/tollgate-tls/ca.crt
{{- end -}}
