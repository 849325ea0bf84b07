package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"legwork/internal/fault"
)

// Registered is a Runner that registered or unregistered, and its file.
type Registered struct {
	Runner     string            `json:"runner"`
	ID         string            `json:"id"`
	Server     string            `json:"server"`
	File       string            `json:"token_file"`
	Labels     map[string]string `json:"labels,omitempty"`
	AllModules bool              `json:"is_assigned_to_all_modules,omitempty"`
	Left       bool              `json:"left,omitempty"` // the record stays at the Server, for further Instances
}

const maxTokenLine = 4 << 10

func (a *app) runnerRegister() *cobra.Command {
	stdin := false
	cmd := a.withFormat(&cobra.Command{
		Use: "register", Short: "Register this host's Runner with a registration token, and keep what it logs in with", Args: exactly(),
		Long: "Register a Runner under the name and with the labels that its settings say, and write what it logs in with to\n" +
			"Runner.token_file. Registering again overwrites: the earlier credential ends. The registration token comes from\n" +
			"standard input, from Runner.RegistrationToken (LEGWORK_RUNNER__REGISTRATION_TOKEN), or is asked for on a terminal.",
	})
	options := registrationFlags(cmd)
	cmd.Flags().BoolVar(&stdin, "stdin-registration-token", false, "read the registration token from standard input")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := options()
		if err != nil {
			return err
		}
		done, err := a.programs.Register(cmd.Context(), o, func(have bool) (string, error) { return a.registrationToken(stdin, have) })
		if err != nil {
			return err
		}
		return a.showRegistered(done)
	}
	return cmd
}

// registrationFlags gives a command the flags that say which Runner registers.
func registrationFlags(cmd *cobra.Command) func() (StartOptions, error) {
	return settingFlags(cmd, []settingFlag{
		{"url", "Server.Url", "base URL of the Server"},
		{"name", "Runner.Name", "name of the Runner; without it that of the Instance"},
		{"instance", "Runner.Instance", "name of this process among those of its Runner; without it that of the host"},
		{"runner-token-file", "Runner.token_file", "file for what the Runner logs in with"},
	})
}

func (a *app) showRegistered(done Registered) error {
	err := a.show(done, func() *table {
		t := &table{}
		t.add("runner", done.Runner)
		t.add("id", done.ID)
		t.add("server", done.Server)
		t.add("token_file", done.File)
		for _, key := range sortedKeys(done.Labels) {
			t.add("label", key+"="+done.Labels[key])
		}
		return t
	})
	if err == nil && !done.AllModules {
		fmt.Fprintf(a.Err, "Next, an owner must assign it: legwork assignment create %s STACK[/NAMESPACE[/MODULE]]\n", done.Runner)
	}
	return err
}

// registrationToken reads a registration token from standard input, or asks for it where it is not known.
func (a *app) registrationToken(stdin, have bool) (string, error) {
	switch {
	case stdin:
		return readTokenLine(a.In)
	case have || !isTerminal(a.In):
		return "", nil
	}
	fmt.Fprint(a.Err, "Registration token: ")
	text, err := readHidden(a.In)
	fmt.Fprintln(a.Err)
	return text, err
}

// readHidden reads a line from a terminal without showing it.
func readHidden(in io.Reader) (string, error) {
	file, ok := in.(*os.File)
	if !ok {
		return "", fault.New(fault.Invalid, "no_terminal", "there is no terminal to ask on")
	}
	text, err := term.ReadPassword(int(file.Fd()))
	if err != nil {
		return "", fault.New(fault.Invalid, "registration_token_missing", "the registration token cannot be read").WithCause(err)
	}
	return strings.TrimSpace(string(text)), nil
}

// readTokenLine reads the first line, which must hold the token alone.
func readTokenLine(in io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(in, maxTokenLine)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fault.New(fault.Invalid, "registration_token_missing", "the registration token cannot be read from standard input").WithCause(err)
	}
	if line = strings.TrimSpace(line); line == "" {
		return "", fault.New(fault.Invalid, "registration_token_missing", "standard input holds no registration token").
			WithHint("for example: legwork runner register --stdin-registration-token --config FILE < token")
	}
	return line, nil
}

func (a *app) runnerUnregister() *cobra.Command {
	local := false
	cmd := a.withFormat(&cobra.Command{
		Use: "unregister", Short: "Delete this host's Runner at the Server, and what it logs in with", Args: exactly(),
		Long: "Delete the Runner that registered with these settings. It is refused while Modules name it or Jobs run there.\n" +
			"Of a Runner with further Instances only this one goes.",
	})
	options := registrationFlags(cmd)
	cmd.Flags().BoolVar(&local, "local", false, "remove the token file alone, without asking the Server")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := options()
		if err != nil {
			return err
		}
		done, err := a.programs.Unregister(cmd.Context(), o, local)
		if err != nil {
			return err
		}
		switch {
		case local:
			fmt.Fprintf(a.Err, "Removed %s. The Runner %s may still be at the Server.\n", done.File, done.Runner)
		case done.Left:
			fmt.Fprintf(a.Err, "This Instance of %s is gone; the Runner stays for the others.\n", done.Runner)
		default:
			fmt.Fprintf(a.Err, "The Runner %s is gone.\n", done.Runner)
		}
		return nil
	}
	return cmd
}
