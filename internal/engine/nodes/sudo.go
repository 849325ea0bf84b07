package nodes

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"os/user"
	"strings"

	"legwork/internal/fault"
	"legwork/internal/remote"
)

// elevation is the fixed text of the shell that sudo starts: what it is to do comes over its standard input.
const elevation = `eval "$(cat)"; exec "$@" </dev/null`

// name is whom commands become.
func (s sudoer) name() string {
	if s.user == "" {
		return "root"
	}
	return s.user
}

// isSelf tells whether that is who this process is.
func (s sudoer) isSelf() bool {
	me, err := user.Current()
	return err == nil && me.Username == s.name()
}

// runAs performs a Command as another user, who can read nothing of this process's folders: the script and $LEGWORK_OUTPUT are in a
// folder that this user makes.
func (h *host) runAs(ctx context.Context, c Command) (Result, error) {
	folder := tempPath("step")
	program, err := h.asProgram(c, folder)
	if err != nil {
		return Result{}, err
	}
	result, err := h.start(ctx, h.asUser(program), c)
	output, outputErr := h.collect(context.WithoutCancel(ctx), folder)
	switch {
	case err != nil || !c.WantOutput, outputErr != nil && result.ExitCode != 0: // the folder may never have been made
		return result, err
	case outputErr != nil:
		return result, outputErr
	}
	result.Output, err = remote.ParseOutput(output)
	return result, err
}

// asProgram is the text that makes the folder and sets environment and arguments. Every value in it is one quoted word.
func (h *host) asProgram(c Command, folder string) (string, error) {
	if bytes.IndexByte(c.Script, 0) >= 0 {
		return "", fault.New(fault.Invalid, "command_invalid", "the script has a NUL byte").WithHint("scripts are text; put programs on the Node as files")
	}
	argv, own, err := h.words(c, folder+"/script")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "_lw_u=$(umask); umask 077\nmkdir %[1]s && printf %%s %[2]s >%[1]s/script && : >%[1]s/output || exit 126\numask \"$_lw_u\"; unset _lw_u\n", folder, quoted(string(c.Script)))
	b.WriteString("[ -x . ] || cd 2>/dev/null || cd /\n") // the folder of the Job may be closed to the user
	if c.WantOutput {
		own = append(own, "LEGWORK_OUTPUT="+folder+"/output")
	}
	for _, entry := range own {
		name, value, _ := strings.Cut(entry, "=")
		b.WriteString("export " + name + "=" + quoted(value) + "\n")
	}
	b.WriteString("set --")
	for _, word := range argv {
		b.WriteString(" " + quoted(word))
	}
	return b.String() + "\n", nil
}

// collect gives what was passed on, and removes the folder.
func (h *host) collect(ctx context.Context, folder string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	var output bytes.Buffer
	text := fmt.Sprintf("[ -f %[1]s/output ] && head -c %[2]d %[1]s/output; rm -rf %[1]s; set -- true\n", folder, remote.MaxOutput+1)
	result, err := h.start(ctx, h.asUser(text), Command{Stdout: &output, Stderr: io.Discard})
	if err == nil && result.ExitCode != 0 {
		err = fmt.Errorf("sudo ended with exit status %d", result.ExitCode)
	}
	if err != nil {
		return "", outputUnreadable(err)
	}
	return output.String(), nil
}

// quoted makes any text without NUL bytes one word of a POSIX shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// asUser has sudo start a shell that does what a text says.
func (h *host) asUser(text string) *exec.Cmd {
	as := h.sudoer.name()
	argv := []string{"sudo", "-n"}
	if h.sudoer.password != "" && needsPassword(as) {
		argv = []string{"sudo", "-k", "-S", "-p", ""}
		text = h.sudoer.password + "\n" + text
	}
	argv = append(argv, "-u", as, "--", "/bin/sh", "-c", elevation, "sh")
	path, err := exec.LookPath("sudo")
	if err != nil {
		path = "/usr/bin/sudo" // which starting will miss
	}
	return &exec.Cmd{Path: path, Args: argv, Dir: h.dir, Env: h.environ, Stdin: strings.NewReader(text)}
}

// needsPassword reports whether sudo asks for a password before it starts the shell. It tries the same command line,
// with nothing to do: sudo may ask for one program and not for another, and a password that it does not read would be
// executed.
func needsPassword(as string) bool {
	return exec.Command("sudo", "-k", "-n", "-u", as, "--", "/bin/sh", "-c", elevation, "sh").Run() != nil
}
