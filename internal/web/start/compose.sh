cat > {{.Name}}.compose.yaml <<'END'
name: legwork-{{.Name}}
services:
  runner:
    image: legwork
    command: ["runner", "start"]
    hostname: {{.Name}}
    env_file: [{{.Name}}.env]
    volumes: ["work:/var/lib/legwork"]
    restart: unless-stopped
    stop_grace_period: 10m
    read_only: true
    tmpfs: ["/tmp"]
    cap_drop: ["ALL"]
    security_opt: ["no-new-privileges:true"]
volumes:
  work: {}
END
docker compose -f {{.Name}}.compose.yaml up -d
