(set -a; . ./{{.Name}}.env; exec legwork runner start)
