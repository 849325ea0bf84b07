(case "$(uname -sm)" in
{{- range .Programs}}
  "{{.Host}}") f={{.Name}} s={{.SHA256}} ;;
{{- end}}
  *) echo "release {{.Version}} has no program for this host" >&2; exit 1 ;;
esac
curl -fsSLo legwork "{{.Server}}/releases/{{.Version}}/$f" &&
  if command -v sha256sum >/dev/null; then echo "$s  legwork" | sha256sum -c; else echo "$s  legwork" | shasum -a 256 -c; fi &&
  sudo install -m 0755 legwork /usr/local/bin/legwork)
