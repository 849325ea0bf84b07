(umask 077; cat > runner.env) <<'END'
LEGWORK_SERVER__URL={{.Server}}
LEGWORK_RUNNER__REGISTRATION_TOKEN={{.Secret}}
LEGWORK_RUNNER__NAME={{.Name}}
END
(set -a; . ./runner.env; exec legwork runner start)
