package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"legwork/internal/api"
	"legwork/internal/catalog"
	"legwork/internal/fault"
)

// execFlags are what `legwork exec` is told beside the command.
type execFlags struct {
	request   api.ExecRequest
	shell     bool
	script    string
	outputDir string
	timeout   time.Duration
	hostKeys  string
	hostsFile string // of --known-hosts
	following followFlags
}

func (a *app) execCommand() *cobra.Command {
	var f execFlags
	cmd := &cobra.Command{
		Use: "exec --stack STACK --nodes FILTER [flags] -- COMMAND...", Short: "Run a command on Nodes",
		Long: "Run a command, or a script, on the Nodes that a filter chooses. What they print is shown as it comes, behind the name of the Node;\n" +
			"at the end stands a summary. The exit status is 0 only when the command succeeded on every Node.\n" +
			"Each argument reaches the command as it is. With --shell the arguments are one text for the shell of the Node, which may hold\n" +
			"templates such as ${node.name}.",
		Example: "  legwork exec --stack prod --nodes 'tags: web' -- uptime\n" +
			"  legwork exec --stack prod --nodes 'name: web-1' --sudo -- systemctl restart nginx\n" +
			"  legwork exec --stack prod --nodes '*' --shell -- 'df -h | tail -n +2'\n" +
			"  legwork exec --stack prod --nodes 'tags: db' --script check.sh --output-dir out -- --verbose",
		ValidArgsFunction: cobra.NoFileCompletions, DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error { return a.exec(cmd.Context(), f, args) },
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // what follows the command's name is the command's
	a.stackFlag(cmd, &f.request.Stack, "whose Nodes (required)")
	flags.StringVar(&f.request.Nodes, "nodes", "", "Node `filter`: which Nodes, * for all (required)")
	flags.StringVar(&f.request.Runner, "runner", "", "the Runner that does it for all Nodes; default those whose Node filters cover them")
	flags.IntVar(&f.request.Concurrency, "concurrency", 0, "Nodes at once per Runner; default 10")
	flags.BoolVar(&f.request.Sudo, "sudo", false, "as root")
	flags.DurationVar(&f.timeout, "timeout", 0, "on each Node; default none")
	flags.StringVar(&f.script, "script", "", "`file` of a script in place of a command, - for standard input; its first line names the interpreter, arguments are the script's")
	flags.BoolVar(&f.shell, "shell", false, "the arguments are one text for the shell, passed as it is")
	flags.StringVar(&f.outputDir, "output-dir", "", "new or empty `folder` for what each Node printed, and summary.json")
	connectionFlags(cmd, &f)
	f.following.add(a, cmd)
	_ = cmd.RegisterFlagCompletionFunc("runner", a.completeFlagRunners) // the flag is there
	return cmd
}

func connectionFlags(cmd *cobra.Command, f *execFlags) {
	c, flags := &f.request.Connection, cmd.Flags()
	flags.StringVar(&c.User, "user", "", "to log in as, for Nodes that name none")
	flags.StringVar(&c.KeySecret, "key-secret", "", "name of the `Secret` that holds the private key")
	flags.StringVar(&c.KeyPassphrase, "key-passphrase-secret", "", "name of the `Secret` that holds the passphrase of that key")
	flags.StringVar(&c.KeyFile, "key-file", "", "private key on the Runner's host")
	flags.StringVar(&c.PasswordSecret, "password-secret", "", "name of the `Secret` that holds the password")
	flags.StringVar(&c.SudoPassword, "sudo-password-secret", "", "with --sudo: name of the `Secret` that holds the password that sudo asks for")
	flags.BoolVar(&c.Agent, "agent", false, "use the ssh-agent of the Runner's user")
	flags.StringSliceVar(&c.Jump, "jump", nil, "`user@host:port` to go through, in order, separated by commas")
	flags.StringVar(&f.hostKeys, "host-keys", "", "strict (default): known host keys alone; accept-new: the first key of a Node is trusted and kept")
	flags.StringVar(&f.hostsFile, "known-hosts", "", "`file` of this host with lines of a known_hosts file, which count beside those of the Runner's host")
	_ = cmd.RegisterFlagCompletionFunc("host-keys", cobra.FixedCompletions([]string{"strict", "accept-new"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

// completeFlagRunners offers Runners for a flag, whatever arguments stand there.
func (a *app) completeFlagRunners(cmd *cobra.Command, _ []string, part string) ([]string, cobra.ShellCompDirective) {
	return a.completeRunners(cmd, nil, part)
}

func (a *app) exec(ctx context.Context, f execFlags, args []string) (err error) {
	if err := f.check(args); err != nil {
		return err
	}
	r := f.request
	r.Timeout, r.Connection.HostKeys = catalog.Duration(f.timeout), catalog.HostKeys(f.hostKeys)
	if r.Priority, err = priorityFlag(f.following.priority); err != nil {
		return err
	}
	if f.hostsFile != "" {
		if r.Connection.KnownHosts, err = readKnownHosts(f.hostsFile); err != nil {
			return err
		}
	}
	r.Connection.Sudo = r.Connection.SudoPassword != ""
	switch {
	case f.script != "":
		r.Script, err = a.readScript(f.script, args)
	case f.shell:
		r.Command = strings.Join(args, " ")
	default:
		r.Command = quoteAll(args)
	}
	if err != nil {
		return err
	}
	var out *outputDir
	if f.outputDir != "" {
		if out, err = newOutputDir(f.outputDir); err != nil {
			return err
		}
	}
	client, err := a.client()
	if err != nil {
		return err
	}
	job, err := client.Exec(ctx, r)
	if err != nil {
		return err
	}
	if f.following.noFollow || !f.following.follow {
		return a.followRun(ctx, client, job, f.following)
	}
	fmt.Fprintf(a.Err, "Job #%d: %s\n", job.Number, job.Kind)
	if out == nil {
		return a.follow(ctx, client, job, f.following.raw)
	}
	return a.followInto(ctx, client, job, f.following.raw, out)
}

func (f *execFlags) check(args []string) error {
	missing := func(what, hint string) error {
		return fault.New(fault.Invalid, "usage", "%s is missing", what).WithHint("%s", hint)
	}
	switch {
	case f.request.Stack == "":
		return missing("--stack", "name the Stack whose Nodes are meant: legwork stack list")
	case strings.TrimSpace(f.request.Nodes) == "":
		return missing("--nodes", "give a Node filter, such as --nodes 'tags: web', or --nodes '*' for all Nodes of the Stack")
	case f.script == "" && len(args) == 0:
		return missing("the command", "usage: legwork exec --stack STACK --nodes FILTER -- COMMAND...")
	case f.script != "" && f.shell:
		return fault.New(fault.Invalid, "usage", "--script and --shell do not go together").WithHint("a script is a text for its interpreter already")
	case f.outputDir != "" && (f.following.noFollow || !f.following.follow):
		return fault.New(fault.Invalid, "usage", "--output-dir and --no-follow do not go together").WithHint("what was not followed is not written; legwork job logs prints it later")
	case f.request.Connection.SudoPassword != "" && !f.request.Sudo:
		return fault.New(fault.Invalid, "usage", "--sudo-password-secret goes with --sudo")
	case f.timeout < 0 || f.request.Concurrency < 0:
		return fault.New(fault.Invalid, "usage", "--timeout and --concurrency must not be negative")
	}
	return nil
}

// maxKnownHosts is what a file of --known-hosts may have; the Server takes no more.
const maxKnownHosts = 256 << 10

func readKnownHosts(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", unreadable(file, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKnownHosts+1))
	switch {
	case err != nil:
		return "", unreadable(file, err)
	case len(text) > maxKnownHosts:
		return "", fault.New(fault.TooLarge, "known_hosts_too_large", "%s is larger than 256 KiB", file).WithHint("give the lines of the Nodes that are meant alone")
	}
	return string(text), nil
}

// maxScript is what a script may have.
const maxScript = 1 << 20

// readScript reads the script that is to be brought to the Nodes. Its arguments are handed on as they are.
func (a *app) readScript(file string, args []string) (*catalog.StepScript, error) {
	from := a.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, unreadable(file, err)
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxScript+1))
	switch {
	case err != nil:
		return nil, unreadable(file, err)
	case len(text) > maxScript:
		return nil, fault.New(fault.TooLarge, "script_too_large", "%s is larger than 1 MiB", file).WithHint("bring what is large to the Nodes in another way")
	case strings.TrimSpace(string(text)) == "":
		return nil, fault.New(fault.Invalid, "script_empty", "%s is empty", file)
	}
	s := &catalog.StepScript{Run: string(text)}
	for _, arg := range args {
		s.Args = append(s.Args, strings.ReplaceAll(arg, "${", "$${")) // a template would be one of the Runbook
	}
	return s, nil
}

// quoteAll makes one line for a POSIX shell that starts args as they are.
func quoteAll(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = quoteArg(arg)
	}
	return strings.Join(quoted, " ")
}

// quoteArg quotes one argument. "${" is taken apart, so that nothing reads a template of the Runbook there.
func quoteArg(arg string) string {
	plain := arg != "" && strings.IndexFunc(arg, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_-./:,@%+", r)
	}) < 0
	if plain {
		return arg
	}
	text := strings.ReplaceAll(arg, "'", `'\''`)
	return "'" + strings.ReplaceAll(text, "${", "$''{") + "'"
}
