{{- define "quorate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The headless service: the names of pods, and all of them at once. */ -}}
{{- define "quorate.nodes" -}}
{{ include "quorate.fullname" . }}-nodes
{{- end -}}

{{- define "quorate.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "quorate.labels" -}}
{{ include "quorate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "quorate.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "quorate.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ default "default" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- define "quorate.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- /* Plain without TLS. A file of values says false where it says off without quotes. */ -}}
{{- define "quorate.plain" -}}
{{- if has (toString .Values.tls.mode) (list "off" "false") -}}
plain
{{- end -}}
{{- end -}}

{{- define "quorate.scheme" -}}
{{- ternary "HTTP" "HTTPS" (eq (include "quorate.plain" .) "plain") -}}
{{- end -}}

{{- /* The settings of every node; what differs is in the pods' environment. */ -}}
{{- define "quorate.settings" -}}
{{- $listen := dict "http" (printf ":%v" .Values.ports.http) "grpc" (printf ":%v" .Values.ports.grpc) "peer" (printf ":%v" .Values.ports.peer) -}}
{{- if .Values.redisPort -}}
{{- $_ := set $listen "redis" (printf ":%v" .Values.redisPort) -}}
{{- end -}}
{{- $join := printf "%s.%s.svc:%v" (include "quorate.nodes" .) .Release.Namespace .Values.ports.grpc -}}
{{- $own := dict "cluster" .Values.cluster "data" "/data/quorate" "listen" $listen "linger" .Values.linger -}}
{{- if eq (include "quorate.plain" .) "plain" -}}
{{- /* Without certificates no pod can prove that it may join: the cluster starts from a list. */ -}}
{{- $nodes := list -}}
{{- range $i := until (int .Values.replicas) -}}
{{- $id := printf "%s-%d" (include "quorate.fullname" $) $i -}}
{{- $nodes = append $nodes (dict "id" $id "peer" (printf "%s.%s.%s.svc:%v" $id (include "quorate.nodes" $) $.Release.Namespace $.Values.ports.peer)) -}}
{{- end -}}
{{- $_ := set $own "nodes" $nodes -}}
{{- else -}}
{{- $_ := set $own "join" (list $join) -}}
{{- if .Values.bootstrap -}}
{{- $_ := set $own "bootstrap" (printf "%s-0" (include "quorate.fullname" .)) -}}
{{- end -}}
{{- end -}}
{{- if .Values.zone -}}
{{- $_ := set $own "zone" .Values.zone -}}
{{- end -}}
{{- if .Values.limits -}}
{{- $_ := set $own "limits" "limits.yaml" -}}
{{- end -}}
{{- if eq (include "quorate.plain" .) "plain" -}}
{{- $_ := set $own "tls" (dict "mode" "off") -}}
{{- else -}}
{{- $_ := set $own "tls" (dict "ca" "/ca/ca.crt" "ca_key" "/ca/ca.key") -}}
{{- end -}}
{{- /* What YAML takes for true and false, on and off among it, are our on and off. */ -}}
{{- $text := merge $own .Values.settings | toYaml -}}
{{- regexReplaceAll "(?m): false$" (regexReplaceAll "(?m): true$" $text ": on") ": off" -}}
{{- end -}}

{{- /* GOMEMLIMIT: nine tenths of the memory limit, in MiB. Empty without a limit, for a form of it that
this does not read, or where extraEnv sets it. */ -}}
{{- define "quorate.gomemlimit" -}}
{{- $own := false -}}
{{- range .Values.extraEnv -}}
{{- if eq .name "GOMEMLIMIT" -}}{{- $own = true -}}{{- end -}}
{{- end -}}
{{- $limit := dig "limits" "memory" "" .Values.resources | toString -}}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- if and (not $own) (regexMatch "^[0-9]+(\\.[0-9]+)?(e[+]?[0-9]+)?([kMGT]|[KMGT]i)?$" $limit) -}}
{{- $unit := regexFind "([kMGT]|[KMGT]i)?$" $limit -}}
{{- $bytes := mulf (trimSuffix $unit $limit | float64) (get $units $unit) 0.9 -}}
{{- printf "%dMiB" (divf $bytes 1048576 | floor | int64) -}}
{{- end -}}
{{- end -}}
