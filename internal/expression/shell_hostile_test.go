package expression_test

import (
	"strings"
	"testing"

	"legwork/internal/expression"
	"legwork/internal/fault"
)

// hostileInputs are texts in which a value reaches a program that may run it: through its input, a file descriptor,
// a function, or a file that the same text writes and runs. Each has a part of the reason.
var hostileInputs = map[string]string{
	`exec 3<<<${option.x}; bash <&3`:                                          "input",
	`exec 3<${option.x}; bash <&3`:                                            "input",
	`exec < <(echo ${option.x}); sh`:                                          "input",
	"exec <<E\n${option.x}\nE\nsh":                                            "input",
	`{ bash <&3; } 3<<<${option.x}`:                                           "input",
	`while read -r l; do bash -c "$l"; done <<< ${option.x}`:                  "input",
	"while read l; do eval $l; done <<E\n${option.x}\nE":                      "input",
	`while read l; do $l; done <<< ${option.x}`:                               "input",
	`while read -r l; do bash -c "$l"; done < <(echo ${option.x})`:            "input",
	`printf %s ${option.x} | while read -r l; do sh -c "$l"; done`:            "input",
	`printf %s ${option.x} | { l=$(cat); eval "$l"; }`:                        "input",
	`f() { read -r l; sh -c "$l"; }; f <<< ${option.x}`:                       "input",
	`f() { echo ${option.x}; }; f | sh`:                                       "input",
	`f() { cat <<< ${option.x}; }; g() { f; }; g | bash`:                      "input",
	`./deploy.sh <<< ${option.x}`:                                             "input",
	`echo ${option.x} | ./deploy.sh`:                                          "input",
	`echo ${option.x} | deploy`:                                               "input",
	`echo ${option.x} | curl -K - http://localhost`:                           "input",
	`./deploy.sh <(echo ${option.x})`:                                         "input",
	`echo ${option.x} | tee >(while read -r l; do sh -c "$l"; done)`:          "input",
	`log() { sh -c "echo $*"; }; log hello ${option.x}`:                       "function",
	`run() { eval "$@"; }; run echo ${option.x}`:                              "function",
	`f() { $1; }; f ${option.x}`:                                              "function",
	`function sh2 { sh -c "$*"; }; time sh2 ${option.x}`:                      "function",
	`f ${option.x}; f() { $1; }`:                                              "function",
	`$EMPTY f ${option.x}; f() { $1; }`:                                       "function",
	"alias run='sh -c'\nrun ${option.x}":                                      "alias",
	"cat <<E > gen.sh\necho ${option.x}\nE\nbash gen.sh":                      "file",
	"cat > gen.sh <<E\necho ${option.x}\nE\nsh ./gen.sh":                      "file",
	"sudo tee gen.sh <<E\necho ${option.x}\nE\nsudo bash gen.sh":              "file",
	`echo ${option.x} > f; . ./f`:                                             "file",
	`echo ${option.x} >> ~/.bashrc; bash -i -c true`:                          "file",
	`echo ${option.x} > f; chmod +x f; ./f`:                                   "file",
	`echo ${option.x} | cat > f; sh f`:                                        "file",
	`echo ${option.x} | tee f; sh f`:                                          "file",
	`{ echo ${option.x}; } > f; source f`:                                     "file",
	`w() { cat > f; }; echo ${option.x} | w; sh f`:                            "file",
	`w() { echo ${option.x}; }; w > f; sh f`:                                  "file",
	`exec 3> f; echo ${option.x} >&3; sh f`:                                   "file",
	`exec > f; echo ${option.x}; sh f >&2`:                                    "file",
	`if true; then printf %s ${option.x} > f; fi; for i in f; do sh $i; done`: "file",
	`echo ${option.x} > Makefile; make`:                                       "file",
	`echo ${option.x} > f; $SHELL f`:                                          "file",
	`echo ${option.x} > f; sudo ./f`:                                          "file",
	`echo ${option.x} > f; awk -f f`:                                          "file",
	`echo ${option.x} > f; sed -nf f f`:                                       "file",
	`cp <(echo ${option.x}) f; sh f`:                                          "file",
	`install -m 755 <(echo ${option.x}) f; ./f`:                               "file",
}

// hostilePrograms are commands that run one of their arguments, or a program that an option of theirs names.
var hostilePrograms = map[string]string{
	`sudo timeout 5 ${option.x}`:                "name of a command",
	`sudo -n taskset 1 nice -n 5 ${option.x}`:   "name of a command",
	`kubectl exec pod -- timeout 5 ${option.x}`: "name of a command",
	`kubectl exec pod -- env ${option.x}`:       "name of a command",
	`ip netns exec blue env ${option.x}`:        "name of a command",
	`perl ${option.x}`:                          "perl",
	`python3 ${option.x}`:                       "python3",
	`python3.12 ${option.x}`:                    "python",
	`bash ${option.x}`:                          "bash",
	`bash -e ${option.x}`:                       "bash",
	`bash -- ${option.x}`:                       "bash",
	`bash -s ${option.x} < f`:                   "bash",
	`zsh -o ${option.x} f`:                      "zsh",
	`sudo -u root bash ${option.x}`:             "bash",
	`kubectl exec pod -- bash ${option.x}`:      "bash",
	`perl -e 1 ${option.x}`:                     "perl",
	`ruby -e 1 ${option.x}`:                     "ruby",
	`node -e 1 ${option.x}`:                     "node",
	`lua -e ${option.x}`:                        "lua",
	`lua ${option.x}`:                           "lua",
	`php ${option.x}`:                           "php",
	`java ${option.x}`:                          "java",
	`taskset 1 ${option.x}`:                     "name of a command",
	`chrt -o 0 ${option.x}`:                     "name of a command",
	`nsenter -t 1 -m ${option.x}`:               "name of a command",
	`setsid ${option.x}`:                        "name of a command",
	`ip netns exec blue ${option.x}`:            "name of a command",
	`kubectl exec pod -- ${option.x}`:           "name of a command",
	`pkexec ${option.x}`:                        "name of a command",
	`sg root ${option.x}`:                       "evaluated by sg",
	`su root ${option.x}`:                       "evaluated by su",
	`runuser root ${option.x}`:                  "runuser",
	`capsh -- -c ${option.x}`:                   "capsh",
	`script -c ${option.x}`:                     "script",
	`systemd-run -p ExecStartPre=${option.x} x`: "systemd-run",
	`flock f -c ${option.x}`:                    "flock",
	`rpm --eval ${option.x}`:                    "rpm",
	`rpm ${option.x}`:                           "--",
	`gcc -wrapper ${option.x} f.c`:              "gcc",
	`gcc ${option.x}`:                           "--",
	`apt-get ${option.x} update`:                "--",
	`apt-get -o ${option.x} update`:             "apt-get",
	`apt install ${option.x}`:                   "--",
	`dpkg ${option.x}`:                          "--",
	`mysql -e "select ${option.x}"`:             "mysql",
	`mysql ${option.x}`:                         "--",
	`psql ${option.x}`:                          "--",
	`sqlite3 db ${option.x}`:                    "sqlite3",
	`nc -e ${option.x}`:                         "nc",
	`go run ${option.x}`:                        "go",
	`go build -toolexec=${option.x} .`:          "go",
	`curl ${option.x} http://localhost`:         "--",
	`curl -K ${option.x}`:                       "curl",
	`wget ${option.x}`:                          "--",
	`wget --use-askpass=${option.x} u`:          "wget",
	`find ${option.x}`:                          "./",
	`find -- ${option.x}`:                       "./",
	`docker run ${option.x}`:                    "--",
	`git log ${option.x}`:                       "--",
	`git ${option.x}`:                           "git",
	`ansible all -m shell -a ${option.x}`:       "ansible",
	`ansible-playbook -e v=${option.x} p.yml`:   "ansible",
	`terraform apply ${option.x}`:               "--",
	`ssh-keygen -D ${option.x}`:                 "ssh-keygen",
	`pip install ${option.x}`:                   "--",
	`less ${option.x}`:                          "--",
	`awk -f ${option.x}`:                        "awk",
	`RUSTC_WRAPPER=${option.x} cargo build`:     "RUSTC_WRAPPER",
	`GOFLAGS=${option.x} go build`:              "GOFLAGS",
	`TF_CLI_ARGS=${option.x} terraform apply`:   "TF_CLI_ARGS",
	`KUBECONFIG=${option.x} kubectl get pods`:   "KUBECONFIG",
	`SYSTEMD_EDITOR=${option.x} systemctl e`:    "SYSTEMD_EDITOR",
	`XDG_CONFIG_HOME=${option.x} git status`:    "XDG_CONFIG_HOME",
	`HOME=${option.x} git status`:               "HOME",
	`CC=${option.x} make`:                       "CC",
	`export PYTHONUSERBASE=${option.x}`:         "PYTHONUSERBASE",
	`AWS_CONFIG_FILE=${option.x} aws s3 ls`:     "AWS_CONFIG_FILE",
}

// harmlessContexts stand next to the hostile ones and stay accepted. They run in real shells with the payloads.
var harmlessContexts = []string{
	`while read -r l; do echo "$l"; done <<E
${option.x}
E`,
	`f() { echo "$OPTION_x"; }; f a`, `f() { echo ${option.x}; }; f | cat`,
	`echo ${option.x} > out; cat out`, `echo ${option.x} > /dev/null; sh ./none.sh`,
	`echo ${option.x} >&2; sh ./none.sh`,
	`./none.sh ${option.x} > out`, `echo "v=${option.x}" >> "$LEGWORK_OUTPUT"; ./none.sh`,
	`deploy.sh ${option.x}`, `deploy.sh --version=${option.x} -- ${option.x}`,
	`sh ./none.sh -- ${option.x}`, `sh -c 'echo "$1"' _ -- ${option.x}`, `perl -e 1 -- ${option.x}`,
	`find "./${option.n}" -name ${option.x}`, `curl --data ${option.x} file:///dev/null`,
	`echo ${option.x} | kubectl apply -f -`, `kubectl get pods -n ${option.x}`, `taskset 1 echo ${option.x}`,
	`sudo -n timeout 5 echo ${option.x}`,
	`env X=${option.x} true`, `CCC=${option.x} true`,
}

func TestHostileValuesAreRefused(t *testing.T) {
	for _, table := range []map[string]string{hostileInputs, hostilePrograms} {
		for text, want := range table {
			_, _, err := expression.Shell(text)
			if fault.Code(err) != "template" || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got error %v, want a refusal that contains %q", text, err, want)
			}
		}
	}
}

func TestHarmlessContextsNeverEvaluate(t *testing.T) {
	for _, shell := range shells(t) {
		dir := shellDir(t)
		contexts := append([]string(nil), harmlessContexts...)
		if strings.HasSuffix(shell, "bash") {
			contexts = append(contexts, `while read -r l; do echo "$l"; done <<< ${option.x}`,
				`exec > >(cat >/dev/null); echo ${option.x}`, `mapfile -t a < <(echo ${option.x}); echo "${a[0]}"`)
		}
		for _, text := range contexts {
			quoted, _, err := expression.Shell(text)
			if err != nil {
				t.Errorf("%q: got %v, want it accepted", text, err)
				continue
			}
			for _, value := range append([]string{`-esystem("touch canary")`, "-ctouch canary"}, payloads...) {
				run(t, dir, shell, quoted, value)
			}
		}
	}
}

// TestHostileValuesWouldRun shows with a real bash that the texts which are refused do run a value.
func TestHostileValuesWouldRun(t *testing.T) {
	for text, value := range map[string]string{
		`exec 3<<<"${OPTION_x}"; bash <&3`:                         "touch canary",
		`exec < <(echo "${OPTION_x}"); sh`:                         "touch canary",
		`log() { sh -c "echo $*"; }; log hello "${OPTION_x}"`:      "$(touch canary)",
		`run() { eval "$@"; }; run echo "${OPTION_x}"`:             "$(touch canary)",
		"cat <<E > gen.sh\necho ${OPTION_x}\nE\nbash gen.sh":       "$(touch canary)",
		`echo "${OPTION_x}" > f; . ./f`:                            "$(touch canary)",
		`while read -r l; do bash -c "$l"; done <<< "${OPTION_x}"`: "touch canary",
		`bash "${OPTION_x}"`:                                       "./evil",
	} {
		if !touches(t, shellDir(t), text, value) {
			t.Errorf("%q with %q: got no canary, want the value evaluated", text, value)
		}
	}
}
