package expression_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"legwork/internal/expression"
	"legwork/internal/fault"
)

func TestShellQuotesForWhereATemplateStands(t *testing.T) {
	for text, want := range map[string]string{
		`echo ${option.x}`:                                           `echo "${OPTION_x}"`,
		`echo "a ${option.x}"`:                                       `echo "a ${OPTION_x}"`,
		`echo 'a ${option.x} b'`:                                     `echo 'a '"${OPTION_x}"' b'`,
		`echo --f=${secret.a-b}`:                                     `echo --f="${SECRET_a_b}"`,
		`echo $HOME ${HOME} "${x:-'a}" ${#y}`:                        `echo $HOME ${HOME} "${x:-'a}" ${#y}`,
		`echo "$(cat ${option.x} 'q')"`:                              `echo "$(cat "${OPTION_x}" 'q')"`,
		"echo `cat ${option.x}`":                                     "echo `cat \"${OPTION_x}\"`",
		`echo \${option.x} \"${option.x}`:                            `echo \${option.x} \""${OPTION_x}"`,
		"echo # ${option.x}\necho ${option.x}":                       "echo # ${option.x}\necho \"${OPTION_x}\"",
		`echo a#${option.x}`:                                         `echo a#"${OPTION_x}"`,
		"cat <<E\n'${option.x}' \"\nE\necho ''":                      "cat <<E\n'${OPTION_x}' \"\nE\necho ''",
		"cat <<-E\n\t${option.x}\n\tE\n":                             "cat <<-E\n\t${OPTION_x}\n\tE\n",
		"cat <<'E'\n$${option.x}'\nE\n":                              "cat <<'E'\n${option.x}'\nE\n",
		`echo $${option.x} "$${option.x}"`:                           `echo '${'option.x} "` + `"'${'"` + `option.x}"`,
		`echo "$(case a in a) echo ${option.x};; esac)" ${option.x}`: `echo "$(case a in a) echo "${OPTION_x}";; esac)" "${OPTION_x}"`,
		`cat <<<${option.x}`:                                         `cat <<<"${OPTION_x}"`,
		`[[ -f ${option.x} && a == ${option.x} ]]`:                   `[[ -f "${OPTION_x}" && a == "${OPTION_x}" ]]`,
		`sh -c 'echo "$1"' _ ${option.x}`:                            `sh -c 'echo "$1"' _ "${OPTION_x}"`,
		`n=$((1+2)) m=${option.x}`:                                   `n=$((1+2)) m="${OPTION_x}"`,
		`[ a = ${option.x} ] && tr [a-z] ${option.x}`:                `[ a = "${OPTION_x}" ] && tr [a-z] "${OPTION_x}"`,
		`export A=${option.x}; bash -e f ${option.x}`:                `export A="${OPTION_x}"; bash -e f "${OPTION_x}"`,
		`python3 d.py -c ${option.x}; bash s.sh -c "${option.x}"`:    `python3 d.py -c "${OPTION_x}"; bash s.sh -c "${OPTION_x}"`,
	} {
		got, refs, err := expression.Shell(text)
		if err != nil || got != want {
			t.Errorf("%q:\n got %q\nwant %q (%v)", text, got, want, err)
		}
		if strings.Contains(got, "${OPTION_x}") && len(refs) != 1 {
			t.Errorf("%q: %v", text, refs)
		}
	}
}

func TestShellRefusesWhereAValueWouldBeEvaluated(t *testing.T) {
	for text, want := range map[string]string{
		`echo $((1 + ${option.x}))`:             "arithmetic",
		`echo $(( $(echo ${option.x}) ))`:       "arithmetic",
		`((a = ${option.x}))`:                   "arithmetic",
		`for ((i=0;i<${option.x};i++)); do`:     "arithmetic",
		`echo $[${option.x}]`:                   "arithmetic",
		`a[${option.x}]=1`:                      "subscript",
		`a[ 1 + ${option.x} ]=1`:                "subscript",
		`a=([${option.x}]=1)`:                   "subscript",
		`[[ ${option.x} -eq 1 ]]`:               "[[ ]]",
		`[[ 1 -lt ${option.x} ]]`:               "[[ ]]",
		`[[ -v ${option.x} ]]`:                  "[[ ]]",
		`eval echo ${option.x}`:                 "OPTION_x",
		`x=1 eval "echo ${option.x}"`:           "eval",
		`eval "$(tool ${option.x})"`:            "eval",
		`if eval ${option.x}; then :; fi`:       "eval",
		"``eval ${option.x}":                    "eval",
		`$DRY ${y:-} eval ${option.x}`:          "eval",
		`${y}"$(true)"declare -i n=${option.x}`: "declare",
		`let n=${option.x}`:                     "let",
		`sh -c "echo ${option.x}"`:              "program",
		`sudo bash -euc 'echo ${option.x}'`:     "program",
		`python3 -c "print('${option.x}')"`:     "program",
		"bash <<E\necho ${option.x}\nE":         "program",
		`bash <<< ${option.x}`:                  "program",
		`bash -euo pipefail -c "x ${option.x}"`: "program",
		`perl -e"print ${option.x}"`:            "program",
		`python3 -c"$(cat ${option.x})"`:        "program",
		`sh -c -s "${option.x}"`:                "program",
		`sh -c -o pipefail "${option.x}"`:       "program",
		`perl -e 'x' -e "${option.x}"`:          "program",
		`node --require a -e "${option.x}"`:     "program",
		`su postgres -c "psql ${option.x}"`:     "program",
		`printf -v${option.x} 1`:                "program",
		"ssh h bash -s a <<E\n${option.x}\nE":   "program",
		"python3 - <<E\n${option.x}\nE":         "program",
		`declare -i n=${option.x}`:              "declare",
		`test -v ${option.x}`:                   "program",
		`echo ${y:-${option.x}}`:                "line 1, column 11"[8:],
		"cat <<'E'\n${option.x}\nE":             "line 2, column 1: ${option.x} stands in a here-document whose delimiter is quoted",
		"echo $'a ${option.x}'":                 "close it",
		"echo `echo \\`cat ${option.x}\\``":     "$(...)",
		"cat <<${option.x}":                     "delimiter",
		`echo ${options.x}`:                     "what there is",
		`echo ${option.x`:                       "not closed",
		"echo \x00":                             "zero",
		strings.Repeat("$(", 200):               "substitutions",
	} {
		_, _, err := expression.Shell(text)
		if fault.Code(err) != "template" || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// hostile are values that a shell would do something with if it ever read one as its own.
var hostile = []string{
	"plain", "", " two  words ", "$(touch canary)", "`touch canary`", "; touch canary", "\ntouch canary\n", "| touch canary", "&& touch canary #",
	"'; touch canary; '", `"; touch canary; "`, `'"; touch canary; "'`, "*", "~", "{a,b}", "$HOME", "${HOME}", `\`, `\\`, `'`, `"`, "a[$(touch canary)]", "x[$(touch canary)]=1",
	"$((a[$(touch canary)]))", "-n", "E", "E\ntouch canary", ")", "touch canary)", "é\x80\xff", "!", "#", "%s%n", "\t", "\r\n", "a=b", "esac; touch canary", "}; touch canary",
}

// shells gives the shells of this machine.
func shells(t *testing.T) []string {
	var found []string
	for _, name := range []string{"bash", "sh"} {
		if path, err := exec.LookPath(name); err == nil {
			found = append(found, path)
		}
	}
	if len(found) == 0 {
		t.Skip("there is no shell here")
	}
	return found
}

// run gives what a text prints. The value is in OPTION_x; it fails the test when the value was read as a command.
func run(t interface{ Fatalf(string, ...any) }, dir, shell, text, value string) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell, "-c", text)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=/nonexistent", "OPTION_x=" + value}, time.Second
	var out bytes.Buffer
	cmd.Stdout = &out
	_ = cmd.Run()
	if _, err := os.Stat(filepath.Join(dir, "canary")); err == nil {
		_ = os.Remove(filepath.Join(dir, "canary"))
		t.Fatalf("%s did what the value %q says, in\n%s", shell, value, text)
	}
	return out.String()
}

// shellDir returns an empty folder with a program that touches the canary.
func shellDir(t *testing.T) string {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "evil"), []byte("#!/bin/sh\ntouch canary\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// touches reports whether bash touches the canary when it runs a text as it is.
func touches(t *testing.T, dir, text, value string) bool {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash here")
	}
	cmd := exec.CommandContext(t.Context(), bash, "-c", text)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "OPTION_x=" + value}
	_ = cmd.Run() // many of these texts fail
	_, err = os.Stat(filepath.Join(dir, "canary"))
	return err == nil
}

// forms are pieces of shell text that print something made of the value, ended by a zero byte, with what they print; V stands for the
// value, and the shells that know them.
var forms = []struct {
	text, want string
	bash       bool
}{
	{`p ${option.x}`, "V", false},
	{`p "${option.x}"`, "V", false},
	{`p '${option.x}'`, "V", false},
	{`p a${option.x}b"c${option.x}d"'e${option.x}f'`, "aVbcVdeVf", false},
	{`p "it's \"${option.x}\""`, `it's "V"`, false},
	{`p 'a "quoted" ${option.x}'`, `a "quoted" V`, false},
	{`p \"${option.x}\'`, `"V'`, false},
	{"p ok # it's ${option.x}", "ok", false},
	{"p a#${option.x} #'", "a#V", false},
	{`y=${option.x}; p "$y"`, "V", false},
	{`p "$(printf '%s.' ${option.x})"`, "V.", false},
	{`p "$(printf "%s." "${option.x}")"`, "V.", false},
	{`p "$(case b in a) p no;; (b) printf '%s.' ${option.x} ;; esac)${option.x}"`, "V.V", false},
	{`p "$( (printf '%s' "("); printf '%s.' '${option.x}' )"`, "(V.", false},
	{"p \"`printf '%s.' ${option.x}`\"", "V.", false},
	{"cat <<E; p ''\n${option.x}.\nE", "V.\n", false},
	{"cat <<-E; p ''\n\tit's \"${option.x}.\n\tE", "it's \"V.\n", false},
	{"cat <<'E'; p \"${option.x}\"\n'\"$HOME $${option.x}\nE", "'\"$HOME ${option.x}\nV", false},
	{"cat <<A; cat <<B; p ''\n${option.x}.\nA\n\"$(printf '%s.' '${option.x}')\nB", "V.\n\"V.\n", false},
	{"cat <<E; p ''\na\\\\\nE", "a\\\n", false},
	{`p $${option.x}`, "${option.x}", false},
	{`p "a$${option.x}"`, "a${option.x}", false},
	{`p '$${option.x}'`, "${option.x}", false},
	{`p \${option.x}`, "${option.x}", false},
	{`case ${option.x} in "${option.x}") p same;; *) p other;; esac`, "same", false},
	{`for i in ${option.x}; do p "$i"; done`, "V", false},
	{`f() { p "$OPTION_x" ${option.x}; }; f`, "VV", false},
	{`if [ -z ${option.x}a ]; then p no; else p ${option.x}; fi`, "V", false},
	{`sh -c 'printf "%s\0" "$1"' _ ${option.x}`, "V", false},
	{"p a\\\n${option.x}", "aV", false},
	{`p "${HOME:+a 'b' c}${option.x}" ${z:-'}'}`, "a 'b' cV}", false}, // p prints its words one after another
	{`p "${HOME%'"'}${option.x}"`, "/nonexistentV", false},
	{`p $((1<<2)) ${option.x}`, "4V", false},
	{`[[ ${option.x} == ${option.x} ]] && p yes`, "yes", true},
	{`p $'it\'s'${option.x}`, "it'sV", true},
	{`a=(${option.x} "${option.x}"); p "${#a[@]}${a[1]}"`, "2V", true},
	{`cat <(printf '%s.' ${option.x}); p ''`, "V.", true},
	{`read -r -d '' y <<< ${option.x}; p ok`, "ok", true},
}

func TestValuesArriveAsTheyAre(t *testing.T) {
	dir := t.TempDir()
	for _, shell := range shells(t) {
		rapid.Check(t, func(r *rapid.T) {
			var text, want strings.Builder
			value := rapid.SampledFrom(hostile).Draw(r, "value")
			if rapid.Bool().Draw(r, "more") {
				value += rapid.StringMatching("[ -~\n]{0,20}").Draw(r, "random") + rapid.SampledFrom(hostile).Draw(r, "second")
			}
			for range rapid.IntRange(1, 8).Draw(r, "forms") {
				form := rapid.SampledFrom(forms).Draw(r, "form")
				if form.bash && !strings.HasSuffix(shell, "bash") {
					continue
				}
				text.WriteString(form.text + "\n")
				want.WriteString(strings.ReplaceAll(form.want, "V", value) + "\x00")
			}
			quoted, _, err := expression.Shell(text.String())
			if err != nil {
				r.Fatalf("%v\n%s", err, text.String())
			}
			quoted = `p() { for w in "$@"; do printf '%s' "$w"; done; printf '\0'; }` + "\n" + quoted
			if got := run(r, dir, shell, quoted, value); got != want.String() {
				r.Fatalf("%s with %q printed\n%q, want\n%q:\n%s", shell, value, got, want.String(), quoted)
			}
		})
	}
}

// TestNoTextMakesACommandOfAValue tries texts without any sense. They cannot touch the canary; only a value can.
func TestNoTextMakesACommandOfAValue(t *testing.T) {
	pieces := []string{
		"${option.x}", "${option.x}", "${option.x}", "'", `"`, "`", `\`, "$(", ")", "(", "((", "))", "$((", "${y:-", "}", "[", "]", "a[", "[[ ", " ]]", " -eq ", "$[", "=", "a=", " ", " ", "\n",
		";", "|", "&&", "#", "<<E\n", "\nE\n", "<<'E'\n", "<<<", "$'", "$", "$$", "echo ", "case a in ", "a)", ";;", "esac", "in", "if ", "then ", "fi", "{ ", "declare -i n=", "let n=", "eval ", "1", "+",
		"export ", "test -v ", "[[ -v ", "printf -v", "unset ", "read ", "f() ", "! ", "time ", "sh -c ", "bash ", "-c ", "-s ", "trap ", ">/dev/null ", "\t", "command ", "exec ", "for ((", "local -a a=", "alias a=",
	}
	dir := t.TempDir()
	tried := 0
	for _, shell := range shells(t) {
		rapid.Check(t, func(r *rapid.T) {
			text := rapid.SampledFrom([]string{"", "echo ${option.x}\n"}).Draw(r, "first") +
				strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 24).Draw(r, "pieces"), "")
			quoted, refs, err := expression.Shell(text)
			if err != nil || len(refs) == 0 {
				return
			}
			tried++
			for _, value := range []string{"a[$(touch canary)]", "$(touch canary)", "'\"; touch canary #", "x\ntouch canary\n"} {
				run(r, dir, shell, quoted, value)
			}
		})
	}
	if tried == 0 {
		t.Fatal("every text was refused")
	}
}

func FuzzShell(f *testing.F) {
	for _, form := range forms {
		f.Add(form.text)
	}
	f.Add(`"${'${option.x}`) // an expansion that is cut off
	f.Fuzz(func(t *testing.T, text string) {
		quoted, refs, err := expression.Shell(text)
		if err == nil && len(refs) == 0 && !strings.Contains(text, "$${") && quoted != text {
			t.Fatalf("%q became %q", text, quoted)
		}
	})
}

func BenchmarkShell(b *testing.B) {
	text := strings.Repeat("echo \"$(cat ${option.x})\" 'a' | tr a b # no\ncat <<E\n${option.x}\nE\n", 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, _, err := expression.Shell(text); err != nil {
			b.Fatal(err)
		}
	}
}
