package expression_test

import (
	"strings"
	"testing"

	"legwork/internal/expression"
	"legwork/internal/fault"
)

// refusedContexts are places where a shell, or a program that scripts call, may evaluate a value; each with a part of the reason.
var refusedContexts = map[string]string{
	// Variables from which programs take commands.
	`PS4=${option.x}; set -x; :`:                     "PS4",
	`PS4=${option.x} bash -xc true`:                  "PS4",
	`export PS4=${option.x}; bash -xc true`:          "PS4",
	`readonly PS4=${option.x}; set -x; :`:            "PS4",
	`env PS4=${option.x} bash -xc true`:              "PS4",
	`sudo -n PS4="${option.x}" bash -xc true`:        "PS4",
	`for PS4 in ${option.x}; do set -x; :; done`:     "PS4",
	`printf -v PS4 %s ${option.x}; set -x; :`:        "PS4",
	`printf -vPS4 %s ${option.x}; set -x; :`:         "PS4",
	`read -r PS4 <<< ${option.x}; set -x; :`:         "input",
	"read -r PS4 <<E\n${option.x}\nE\nset -x; :":     "read",
	`echo ${option.x} | { read -r PS4; set -x; :; }`: "input",
	`export "PS4=${option.x}"; bash -xc true`:        "export",
	`BASH_ENV=${option.x} bash -c true`:              "BASH_ENV",
	`ENV=${option.x} sh -ic true`:                    "ENV",
	`PROMPT_COMMAND=${option.x}`:                     "PROMPT_COMMAND",
	`PS1=${option.x}`:                                "PS1",
	`LD_PRELOAD=${option.x} true`:                    "LD_PRELOAD",
	`PATH=${option.x}:$PATH; ls`:                     "PATH",
	`PATH+=:${option.x}; ls`:                         "PATH",
	`IFS=${option.x}`:                                "IFS",
	`PERL5OPT=${option.x} perl -e 1`:                 "PERL5OPT",
	`PYTHONPATH=${option.x} python3 -c 1`:            "PYTHONPATH",
	`NODE_OPTIONS=${option.x} node x.js`:             "NODE_OPTIONS",
	`GIT_SSH_COMMAND=${option.x} git fetch`:          "GIT_SSH_COMMAND",
	`EDITOR=${option.x} crontab -e`:                  "EDITOR",
	`RANDOM=${option.x}`:                             "arithmetic",
	`declare -i n; n=${option.x}`:                    "arithmetic",
	`f() { local -i n; n=${option.x}; }; f`:          "arithmetic",
	`declare -n r; r=${option.x}`:                    "arithmetic",
	// Input of programs that run it.
	`echo "echo ${option.x}" | sh`:                   "input",
	`echo "echo ${option.x}" | bash -s a`:            "input",
	`echo ${option.x} |& bash`:                       "input",
	`echo ${option.x} | sudo -n bash`:                "input",
	`echo ${option.x} | env -i sh`:                   "input",
	`echo ${option.x} | { cat >/dev/null; sh; }`:     "input",
	`echo ${option.x} | (sh)`:                        "input",
	`echo ${option.x} | while :; do sh; break; done`: "input",
	`f() { sh; }; echo ${option.x} | f`:              "input",
	// A function may come before the one that it calls, and a variable may name a shell.
	`f() { sh; }; g() { f; }; echo ${option.x} | g`:           "input",
	`h() { g; }; g() { f; }; f() { sh; }; h <<< ${option.x}`:  "input",
	`echo ${option.x} | $SHELL`:                               "input",
	`echo ${option.x} | "$CMD"`:                               "input",
	`echo ${option.x} | "$CMD" -s`:                            "input",
	`echo ${option.x} | sudo -n -u root "$CMD"`:               "input",
	`echo ${option.x} | $SUDO sh`:                             "input",
	`"$CMD" <<< ${option.x}`:                                  "input",
	`echo ${option.x} | python3.12`:                           "input",
	`echo ${option.x} | /usr/bin/lua5.4 -`:                    "input",
	`python3.12 -c ${option.x}`:                               "program",
	`echo ${option.x} | kubectl exec -i p -- sh`:              "input",
	`echo ${option.x} | kubectl exec -i p -- "$CMD"`:          "input",
	`echo ${option.x} | docker exec -i c /usr/bin/python3.12`: "input",
	`echo ${option.x} | docker run -i --rm image bash -s`:     "input",
	`f() { docker exec -i c sh; }; echo ${option.x} | f`:      "input",
	`f() { bash -s; }; f <<< ${option.x}`:                     "input",
	`echo ${option.x} | tee >(sh) >/dev/null`:                 "input",
	`echo ${option.x} > >(bash)`:                              "input",
	`coproc sh; echo ${option.x} >&"${COPROC[1]}"`:            "input",
	`echo ${option.x} | xargs sh -c`:                          "input",
	`echo ${option.x} | xargs -I{} sh -c 'echo {}'`:           "input",
	`echo ${option.x} | xargs env`:                            "input",
	`echo ${option.x} | xargs $tool`:                          "input",
	`echo ${option.x} | bash /dev/stdin`:                      "input",
	`echo ${option.x} | . /dev/stdin`:                         "input",
	`bash <(echo ${option.x})`:                                "input",
	`bash < <(echo ${option.x})`:                              "input",
	`{ sh; } <<< ${option.x}`:                                 "input",
	`(bash) < ${option.x}`:                                    "input",
	`echo ${option.x} | perl`:                                 "input",
	`echo ${option.x} | psql`:                                 "input",
	`echo ${option.x} | at now`:                               "input",
	// Commands that evaluate their arguments.
	`. ${option.x}`:                         "evaluated by .",
	`source ${option.x}`:                    "evaluated by source",
	`source <(echo ${option.x})`:            "input",
	`compgen -C ${option.x}`:                "compgen",
	`complete -C ${option.x} ls`:            "complete",
	`bind -x ${option.x}`:                   "bind",
	`hash -p ${option.x} ls; ls`:            "hash",
	`enable -f ${option.x} x`:               "enable",
	`fc -e ${option.x}`:                     "fc",
	`command eval ${option.x}`:              "eval",
	`sudo -u bob eval ${option.x}`:          "eval",
	`$SUDO eval ${option.x}`:                "eval",
	`git -c ${option.x} status`:             "git",
	`git -c alias.x="!${option.x}" x`:       "git",
	`git fetch --upload-pack=${option.x} r`: "git",
	`git clone ${option.x} d`:               "--",
	`tar xf a.tar --to-command=${option.x}`: "tar",
	`tar -I ${option.x} -xf a.tar`:          "tar",
	`tar xf a.tar ${option.x}`:              "--",
	`sed "s/a/${option.x}/" f`:              "sed",
	`sed -n p ${option.x}`:                  "--",
	`awk "{ print \"${option.x}\" }" f`:     "awk",
	`find . -exec ${option.x} \;`:           "find",
	`sort ${option.x}`:                      "--",
	`ssh host "echo ${option.x}"`:           "ssh",
	`ssh ${option.x} uptime`:                "--",
	`ssh -o ProxyCommand=${option.x} host`:  "ssh",
	`watch ${option.x}`:                     "watch",
	`env -S ${option.x}`:                    "env",
	`sudo -i echo ${option.x}`:              "sudo",
	`set ${option.x}`:                       "set --",
	`[ ${option.x} ${option.x} ]`:           "operator",
	`test -v ${option.x}`:                   "OPTION_x",
	`printf -v ${option.x} 1`:               "OPTION_x",
	// Names of commands, and what is no known place of a value.
	`${option.x}`:                    "name of a command",
	`${option.x} a`:                  "name of a command",
	`a=1 ${option.x}`:                "name of a command",
	`sudo -n ${option.x}`:            "name of a command",
	`exec ${option.x}`:               "name of a command",
	`nohup ${option.x} &`:            "name of a command",
	`timeout 5 ${option.x}`:          "name of a command",
	`$SUDO ${option.x}`:              "name of a command",
	`"./${option.x}"`:                "name of a command",
	`if true; then echo ${option.x}`: "valid shell syntax",
	`echo ${option.x} )`:             "valid shell syntax",
}

// acceptedContexts are places where a value is data for sh and bash.
var acceptedContexts = []string{
	`echo ${option.x} | $SUDO tee -- "$file"`,
	`echo ${option.x} | sudo -u "$user" tee -- "$file"`,
	`echo ${option.x} | timeout "$t" cat`,
	`echo ${option.x} | env A="$b" cat`,
	`echo ${option.x} | grep -v sh`,
	`echo ${option.x} | kubectl apply -f -`,
	`echo ${option.x} | kubectl exec -i "$pod" -- tee /tmp/file`,
	`f() { cat; }; g() { f; }; echo ${option.x} | g`,
	`"$CMD" list > ${option.x}`,
	`echo ${option.x}`, `echo "a ${option.x} b"`, `echo 'a ${option.x} b'`, `echo a${option.x}b "c"${option.x}'d'`,
	`printf '%s\n' ${option.x}`, `cat -- ${option.x} 2>&1`, `cat < ${option.x}`, `: > "d-${option.n}"`, `echo x >> /dev/null ${option.x}`,
	`y=${option.x}; echo "$y"`, `y="${option.x}" z='${option.x}'; export y`, `export A=${option.x}; env >/dev/null`,
	`A=${option.x} env >/dev/null`, `env A=${option.x} true`, `local_name=${option.x} true`,
	`case ${option.x} in a) echo a;; "${option.x}") echo same;; esac`, `for i in ${option.x} b; do echo "$i"; done`,
	`if [ ${option.x} = a ]; then echo yes; else echo ${option.x}; fi`, `[ -n ${option.x} ] && echo ${option.x}`,
	`[ -f "${option.x}" ] || echo no`, `test -d ${option.x}; echo $?`, `while [ -z ${option.x}x ]; do echo; done`,
	`f() { echo ${option.x}; }; f`, `set -- ${option.x}; echo "$1"`, `(echo ${option.x})`, `{ echo ${option.x}; }`,
	`echo "$(echo ${option.x})"`, "echo `echo ${option.x}`", `echo ${option.x} | cat`, `echo ${option.x} | tr a-z A-Z | wc -c`,
	`echo ${option.x} | sort -u`, `echo ${option.x} | grep -F -- ${option.x}`, `echo ${option.x} | xargs echo`,
	`echo ${option.x} | while read -r line; do echo "$line"; done`, `sh -c 'echo "$1"' _ ${option.x}`, `bash -c 'echo "$1"' _ "${option.x}"`,
	`sh ./none.sh ${option.x}`, "cat <<E\n${option.x}\n\"${option.x}\" '\nE\n", "cat <<-E\n\t${option.x}\n\tE\n", `command -v ${option.x}`,
	`timeout 5 echo ${option.x}`, `nice -n 5 echo ${option.x}`, `sed -n p -- ${option.x}`, `sed -e 's/a/b/' "./${option.x}"`,
	`awk -v v=${option.x} 'BEGIN { print v }'`, `find . -maxdepth 0 -name ${option.x}`, `tar -cf /dev/null -C . -- ${option.x}`,
	`tar czf "a-${option.n}.tgz" .`, `git log --grep=${option.x}`, `git clone -- ${option.x} d`, `kill -0 ${option.x}`, `$EMPTY echo ${option.x}`,
	`cd ${option.x} && ls`, `mkdir -p "d/${option.n}"`, `! echo ${option.x}`, `time echo ${option.x}`, `echo ${option.x} &`, `trap 'echo bye' EXIT; echo ${option.x}`,
}

// bashContexts are the same for bash only.
var bashContexts = []string{
	`[[ ${option.x} == a* || -f ${option.x} ]]`, `[[ ${option.x} =~ ^[a-z]+$ ]]`, `a=(${option.x} "${option.x}"); echo "${a[@]}"`, `cat <<< ${option.x}`,
	`read -r y <<< ${option.x}; echo "$y"`, `cat <(echo ${option.x})`, `declare y=${option.x}; echo "$y"`, `f() { local y=${option.x}; echo "$y"; }; f`,
	`printf -v y %s ${option.x}; echo "$y"`, `mapfile -t y <<< ${option.x}; echo "${y[0]}"`, `echo ${option.x} &> /dev/null`,
}

// payloads are values that touch the canary when a shell evaluates them in one way or another.
var payloads = []string{
	"'\"; touch canary; '\"\ntouch canary\n$(touch canary)`touch canary`", "a[$(touch canary)]", "touch canary", "./evil", "--to-command=touch canary",
	"-e1e touch canary",
}

func TestRefusedContexts(t *testing.T) {
	for text, want := range refusedContexts {
		quoted, _, err := expression.Shell(text)
		if fault.Code(err) != "template" || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q and error %v, want a refusal that contains %q", text, quoted, err, want)
		}
	}
}

func TestAcceptedContextsNeverEvaluate(t *testing.T) {
	for _, shell := range shells(t) {
		dir := shellDir(t)
		contexts := acceptedContexts
		if strings.HasSuffix(shell, "bash") {
			contexts = append(append([]string(nil), contexts...), bashContexts...)
		}
		for _, text := range contexts {
			quoted, _, err := expression.Shell(text)
			if err != nil {
				t.Errorf("%q: got %v, want it accepted", text, err)
				continue
			}
			for _, value := range payloads {
				run(t, dir, shell, quoted, value)
			}
		}
	}
}

// TestRefusalIsNeeded shows with real shells that the contexts which were once accepted do evaluate a value.
func TestRefusalIsNeeded(t *testing.T) {
	for text, value := range map[string]string{
		`PS4="${OPTION_x}"; set -x; :`:                     "$(touch canary)",
		`BASH_ENV="${OPTION_x}" bash -c true`:              "./evil",
		`echo "echo ${OPTION_x}" | sh`:                     "$(touch canary)",
		`echo "${OPTION_x}" | { read -r PS4; set -x; :; }`: "$(touch canary)",
		`for PS4 in "${OPTION_x}"; do set -x; :; done`:     "$(touch canary)",
		`. "${OPTION_x}"`:                                  "./evil",
		`echo a | sed -e p "${OPTION_x}"`:                  "-e1e touch canary",
	} {
		if !touches(t, shellDir(t), text, value) {
			t.Errorf("%q with %q: got no canary, want the value evaluated", text, value)
		}
	}
}
