docker run -d --name legwork-{{.Name}} --restart unless-stopped \
  --hostname {{.Name}} --env-file {{.Name}}.env --stop-timeout 600 \
  --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges \
  -v legwork-{{.Name}}:/var/lib/legwork legwork runner start
