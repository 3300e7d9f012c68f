{{- /* The name of everything: the release's, if that says what it is. */ -}}
{{- define "tanist.name" -}}
{{- if contains "tanist" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-tanist{{ end }}
{{- end }}

{{- /* No label that only Helm would set: what is rendered is the same with and without it, and Helm marks its own. */ -}}
{{- define "tanist.labels" -}}
app.kubernetes.io/name: tanist
app.kubernetes.io/part-of: tanist
{{- end }}

{{- define "tanist.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* The one whom roles are bound to. */ -}}
{{- define "tanist.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "tanist.name" . }}
    namespace: {{ .Release.Namespace }}
{{- end }}
