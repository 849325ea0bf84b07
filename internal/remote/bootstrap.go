package remote

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"maps"
	"path"
	"slices"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/lazyregexp"
)

const (
	maxScript = 4 << 20
	maxValue  = catalog.MaxVariableBytes // Linux takes 128 KiB for one string of the environment, its name included
	maxEnv    = 1 << 20
)

// bootstrapText is the program for the shell on the Node. Go puts values before it; it says nothing that was declared.
//
//go:embed bootstrap.sh
var bootstrapText string

var (
	envName  = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	userName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_.@-]{0,63}\$?$`)
	// shells hold these for themselves: setting one would end the shell before the command begins.
	reserved = []string{"_", "UID", "EUID", "PPID", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO", "OPTIND", "LINENO", "GROUPS", "FUNCNAME", "DIRSTACK", "LEGWORK_OUTPUT"}
)

func (c Command) sudoUser() string {
	if c.SudoUser == "" {
		return "root"
	}
	return c.SudoUser
}

// plain tells that the command can be done by the shell that reads the program, without files.
func (c Command) plain() bool {
	shell := len(c.Interpreter) == 0 || len(c.Interpreter) == 1 && (c.Interpreter[0] == "/bin/sh" || c.Interpreter[0] == "sh")
	return shell && len(c.Args) == 0 && !c.WantOutput
}

// check refuses what no shell can take. The fault is command_invalid.
func (c Command) check() error {
	total := 0
	for name, value := range c.Env {
		total += len(name) + len(value)
		switch {
		case !envName.MatchString(name) || strings.HasPrefix(name, "_lw_") || slices.Contains(reserved, name):
			return commandFault("%q cannot be set as an environment variable", name).WithHint("use letters, digits and _, and no name that shells hold for themselves")
		case strings.ContainsRune(value, 0):
			return commandFault("the value of the environment variable %s has a NUL byte", name)
		case len(value) > maxValue:
			return commandFault("the value of the environment variable %s has more than %d KiB", name, maxValue>>10).WithHint("put it on the Node as a file")
		}
	}
	for _, text := range append(append([]string{c.Dir}, c.Interpreter...), c.Args...) {
		if total += len(text); strings.ContainsRune(text, 0) {
			return commandFault("an argument or the folder has a NUL byte")
		}
	}
	switch {
	case total > maxEnv:
		return commandFault("environment and arguments have more than %d KiB together", maxEnv>>10).WithHint("put large values on the Node as files")
	case len(c.Script) > maxScript:
		return commandFault("the script has more than %d MiB", maxScript>>20).WithHint("put large data on the Node as files")
	case bytes.IndexByte(c.Script, 0) >= 0:
		return commandFault("the script has a NUL byte").WithHint("scripts are text; put programs on the Node as files")
	case c.Sudo && !userName.MatchString(c.sudoUser()):
		return commandFault("%q cannot be a user of sudo", c.SudoUser)
	case len(c.Interpreter) > 0 && c.Interpreter[0] == "":
		return commandFault("the interpreter has no name")
	}
	return nil
}

// program gives the text that the shell on the Node reads. It does nothing unless all of it arrives: its last line starts
// what those before it only define.
func (c Command) program(nonce, folder string) []byte {
	var b bytes.Buffer
	set := func(name, value string) { b.WriteString(name + "=" + quote(value) + "\n") }
	set("_lw_n", nonce)
	set("_lw_i", folder)
	set("_lw_s", string(c.Script))
	set("_lw_d", directory(c.Dir))
	set("_lw_plain", flag(c.plain()))
	set("_lw_want", flag(c.WantOutput))
	script := "script"
	interpreter := []string{"/bin/sh"}
	if len(c.Interpreter) > 0 {
		interpreter = c.Interpreter
		if name := path.Base(interpreter[0]); name == "pwsh" || name == "powershell" {
			script = "script.ps1" // it refuses other names
		}
	}
	set("_lw_f", script)
	b.WriteString("_lw_env() {\n:\n")
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		b.WriteString("export " + name + "=" + quote(c.Env[name]) + "\n")
	}
	b.WriteString("}\n_lw_with() {\nset --")
	for _, word := range interpreter {
		b.WriteString(" " + quote(word))
	}
	b.WriteString(` "$_lw_t/$_lw_f"`)
	for _, word := range c.Args {
		b.WriteString(" " + quote(word))
	}
	b.WriteString("\n\"$_lw_then\" \"$@\"\n}\n")
	b.WriteString(bootstrapText)
	return b.Bytes()
}

// directory makes a declared folder a word that cd does not take for an option.
func directory(dir string) string {
	if strings.HasPrefix(dir, "-") {
		return "./" + dir
	}
	return dir
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return ""
}

// quote makes any text without NUL bytes one word of a POSIX shell (XCU 2.2.2: nothing is special between single quotes).
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func randomName() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
