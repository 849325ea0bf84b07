// Package cli is the command line: a client of the Server's API, and the door to the programs of this binary.
// It talks to people: tables, the log of a Job as it comes, one sentence and a hint for every error, and an exit
// status that scripts can rely on.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

// Programs are what this binary runs besides being a client. Each runs until its ctx ends.
type Programs struct {
	Version string
	Server  func(ctx context.Context, o StartOptions, log io.Writer) error
	Runner  func(ctx context.Context, o StartOptions, log io.Writer) error
	// RotateKey gives the database of a Server a new master key and, with data, seals all values anew under a new data key. It says what it did.
	RotateKey func(ctx context.Context, o StartOptions, data bool, out io.Writer) error
	// Backup writes a backup, VerifyBackup checks one, Restore fills a Server from one, and Migrate copies its database. They say what they did.
	Backup       func(ctx context.Context, o StartOptions, b BackupOptions, out io.Writer) error
	VerifyBackup func(ctx context.Context, b BackupOptions, out io.Writer) error
	Restore      func(ctx context.Context, o StartOptions, b BackupOptions, out io.Writer) error
	Migrate      func(ctx context.Context, o StartOptions, m MigrateOptions, out io.Writer) error
	// AdminToken replaces the token of a Server's admin.
	AdminToken func(ctx context.Context, o StartOptions, out io.Writer) error
	Keep       func(ctx context.Context, dir string) error
	// Tasks are the programs that a Runner has its keeper start, by the word behind `legwork runner`. Each does what a file says
	// and gives the exit status.
	Tasks map[string]func(ctx context.Context, file string) int
	// Confine replaces this process by a command that a policy confines. It returns only when that failed.
	Confine func(policy string, argv []string) error
	// Register registers a Runner as its settings say. ask is told whether these have a registration token, and gives one that
	// goes before it, or "".
	Register func(ctx context.Context, o StartOptions, ask func(have bool) (string, error)) (Registered, error)
	// Unregister takes a Runner from the Server and removes its token file; with local the file alone.
	Unregister func(ctx context.Context, o StartOptions, local bool) (Registered, error)
	Dev        func(ctx context.Context, o DevOptions, out io.Writer) error
	// Schema gives the JSON Schema of "manifest", "runner" or "server".
	Schema func(name string) ([]byte, error)
}

// StartOptions are where the settings of a program come from, besides the environment.
type StartOptions struct {
	File  string            // settings file; "" = none
	Flags map[string]string // dotted key to its value as text

	// FlagNames says what was typed for a key of Flags, such as "--listen"; keys that are not in it: --set.
	FlagNames map[string]string

	Hold bool // of a Server: it starts on hold
}

// DevOptions say what `legwork dev` starts.
type DevOptions struct {
	Manifests []catalog.ManifestFile
	Home      string
	Listen    string
}

// IO is what a command reads and writes, so that tests can stand in for a terminal.
type IO struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
	Env func(string) string
}

// System gives the IO of this process.
func System() IO { return IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv} }

// app is one run of the command line.
type app struct {
	IO
	programs       Programs
	out, err       *terminal // what Out and Err can do
	begun          bool      // the arguments were understood
	server         string
	token          string // file
	caFile         string
	allowPlainHTTP bool
	format         format
}

// Run executes one command line, without the program's name, and gives the exit status.
func Run(ctx context.Context, io IO, programs Programs, args []string) int {
	a := &app{IO: io, programs: programs}
	a.out, a.err = terminalOf(io.Out, io.Env), terminalOf(io.Err, io.Env)
	root := a.root()
	root.SetArgs(args)
	root.SetIn(io.In)
	root.SetOut(io.Out)
	root.SetErr(io.Err)
	err := root.ExecuteContext(ctx)
	if err != nil && !a.begun && !isFault(err) {
		err = wrongUse(err)
	}
	a.report(err)
	return exitStatus(err)
}

// CommandTree returns all commands, for programs that generate documents from them.
func CommandTree(programs Programs) *cobra.Command {
	a := &app{IO: System(), programs: programs}
	a.out, a.err = terminalOf(a.Out, a.Env), terminalOf(a.Err, a.Env)
	root := a.root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}

func isFault(err error) bool {
	var f *fault.Fault
	return errors.As(err, &f)
}

// wrongUse gives what cobra says of arguments the form of our own errors.
func wrongUse(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return fault.New(fault.Invalid, "usage", "%s", strings.TrimSuffix(text, ".")).WithHint("legwork help shows what there is")
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "legwork",
		Short: "The Server decides; Runners do the legwork",
		Long: "The Server decides; Runners do the legwork.\n\n" +
			"Exit status: 0 done, 1 the Job failed (or something inside the program), 2 wrong use, 3 not allowed,\n" +
			"4 not found, 5 Server unreachable, 6 --timeout ran out first, 130 interrupted: a Job that was followed goes on.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       a.programs.Version,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups()); err != nil { // cobra asks later, when all is understood
				return wrongUse(err)
			}
			a.begun = true
			return nil
		},
		Args:                       cobra.ArbitraryArgs,
		RunE:                       group,
		SuggestionsMinimumDistance: 2,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fault.New(fault.Invalid, "usage", "%s", err).WithHint("%s --help shows the flags", cmd.CommandPath())
	})
	flags := root.PersistentFlags()
	flags.StringVar(&a.server, "server", "", "base URL of the Server (LEGWORK_SERVER; default "+defaultServer+")")
	flags.StringVar(&a.token, "token-file", "", "file that holds the token (LEGWORK_TOKEN_FILE, or the token itself in LEGWORK_TOKEN)")
	flags.BoolVar(&a.allowPlainHTTP, "allow-plain-http", false, "send the token to another host without TLS (LEGWORK_ALLOW_PLAIN_HTTP=true)")
	flags.StringVar(&a.caFile, "ca-file", "", "PEM file of certificate authorities to trust besides those of the host (LEGWORK_CA_FILE)")
	root.AddCommand(a.serverCommand(), a.runnerCommand(), a.devCommand(), a.userCommand(), a.principalCommand(), a.auditCommand(), a.loadCommand(), a.assignmentCommand(), a.manifestCommand(), a.stackCommand(),
		a.namespaceCommand(), a.moduleCommand(), a.outputCommand(), a.nodeCommand(), a.nodeSourceCommand(), a.runbookCommand(), a.execCommand(), a.jobCommand(), a.secretCommand(), a.cloudIdentityCommand(), a.maintenanceCommand(), a.releaseCommand(), a.schemaCommand(), a.versionCommand())
	addExamples(root)
	return root
}

// group is what a command does that only holds others.
func group(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		f := fault.New(fault.Invalid, "usage", "%q is not a command of %s", args[0], cmd.CommandPath())
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return f.WithHint("did you mean %s?", strings.Join(near, " or "))
		}
		return f.WithHint("%s --help shows the commands", cmd.CommandPath())
	}
	_ = cmd.Help() // to whoever still listens
	return fault.New(fault.Invalid, "usage", "a command is missing after %s", cmd.CommandPath()).WithHint("choose one of those above")
}

// parent makes a command that only holds others.
func parent(use, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: group, SuggestionsMinimumDistance: 2}
	cmd.AddCommand(children...)
	return cmd
}

// exactly is a check of the arguments that says which are missing, and which cannot be names.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return fault.New(fault.Invalid, "usage", "%s is missing", names[len(args)]).WithHint("usage: %s", cmd.UseLine())
		case len(args) > len(names):
			return fault.New(fault.Invalid, "usage", "%q is one argument too many", args[len(names)]).WithHint("usage: %s", cmd.UseLine())
		}
		for i, name := range names {
			if err := nameable(name, args[i]); err != nil {
				return err.WithHint("usage: %s", cmd.UseLine())
			}
		}
		return nil
	}
}

// argumentNames says what arguments are called in sentences.
var argumentNames = map[string]string{
	"RUNNER": "name of the Runner", "RUNNER[/INSTANCE]": "name of the Runner or of its Instance", "RUNNER/INSTANCE": "name of the Runner or of its Instance",
	"PRINCIPAL": "name of the Service principal", "USER": "name of the user", "MODULE": "path of the Module", "STACK": "name of the Stack",
	"NAMESPACE": "path of the Namespace", "TOKEN": "name of the registration token", "NAME": "name", "SCOPE": "scope", "ID": "id",
	"[STACK/]NODE": "name of the node",
	"NODE":         "path of the Node", "SOURCE": "path of the Node source", "RUNBOOK": "path of the Runbook",
}

// nameable tells what is wrong with an argument before anybody is asked for what it names: a part of it is empty, or it has more parts than
// what it stands for.
func nameable(argument, given string) *fault.Fault {
	what := cmp.Or(argumentNames[argument], argument)
	if argument == "FILE" || strings.HasPrefix(argument, "PATH") {
		return nil // of this host
	}
	if argument == "FILTER" {
		return nil // the Server says what is wrong with one, and where
	}
	parts := strings.Split(given, "/")
	if slices.ContainsFunc(parts, func(part string) bool { return strings.TrimSpace(part) == "" }) {
		if len(parts) == 1 {
			return fault.New(fault.Invalid, "usage", "the %s is empty", what)
		}
		return fault.New(fault.Invalid, "usage", "a part of the %s %q is empty", what, given)
	}
	most := len(parts)
	switch argument {
	case "RUNNER", "PRINCIPAL", "USER", "STACK", "TOKEN", "ID":
		most = 1
	case "RUNNER[/INSTANCE]", "RUNNER/INSTANCE", "[STACK/]NODE":
		most = 2
	case "NODE", "SOURCE", "RUNBOOK":
		if most = 2; len(parts) < most {
			return fault.New(fault.Invalid, "usage", "the %s %q names no Stack: it is written stack/name", what, given)
		}
	}
	if len(parts) > most {
		return fault.New(fault.Invalid, "usage", "the %s %q has a slash too many", what, given)
	}
	return nil
}

// exitStatus is the one place where errors become exit statuses.
func exitStatus(err error) int {
	if err == nil {
		return 0
	}
	var status taskStatus
	if errors.As(err, &status) {
		return int(status)
	}
	if wasInterrupted(err) {
		return 130
	}
	if fault.Of(err).Code == errDrainLate.Code {
		return 6
	}
	switch fault.Of(err).Kind {
	case fault.Invalid, fault.TooLarge:
		return 2
	case fault.Unauthenticated, fault.Forbidden:
		return 3
	case fault.NotFound:
		return 4
	case fault.Unavailable:
		return 5
	}
	return 1
}

// report writes an error as a sentence with a hint.
func (a *app) report(err error) {
	var said alreadySaid
	var status taskStatus
	if err == nil || errors.As(err, &said) || errors.As(err, &status) {
		return
	}
	if wasInterrupted(err) {
		fmt.Fprintln(a.Err, "interrupted")
		return
	}
	f := fault.Of(err)
	message := f.Message
	if f.Kind == fault.Internal && f.Code == "internal" && !isFault(err) {
		message = err.Error() // our own: there is no log to look into
	}
	if len(f.Details) > 1 { // the list below starts with the problem that the message quotes
		message = strings.TrimSuffix(message, "; the first: "+f.Details[0].String())
	}
	fmt.Fprintf(a.Err, "%s %s\n", a.err.paint(bold+red, "Error:"), sentence(message))
	if len(f.Details) > 1 {
		for _, problem := range f.Details {
			fmt.Fprintf(a.Err, "  %s\n", clean(problem.String()))
		}
	}
	if f.Code == "node_filter" && len(f.Details) == 1 {
		_, excerpt, _ := strings.Cut(f.Details[0].Message, "\n") // the text, and a caret under the column
		for line := range strings.Lines(excerpt) {
			fmt.Fprintf(a.Err, "  %s\n", clean(strings.TrimSuffix(line, "\n")))
		}
	}
	hint := f.Hint
	switch {
	case isFault(err) && hint != "":
	case errors.Is(err, syscall.ENOSPC):
		hint = "free some space on the disk of the file that is named, then try again"
	default:
		hint = generalHints[f.Kind]
	}
	fmt.Fprintf(a.Err, "%s %s\n", a.err.paint(bold, "Hint:"), sentence(hint))
}

// sentence cleans a text and ends it as a sentence.
func sentence(text string) string {
	if text = clean(text); strings.HasSuffix(text, ".") || strings.HasSuffix(text, "?") || strings.HasSuffix(text, "!") {
		return text
	}
	return text + "."
}

// generalHints are for errors that bring no hint of their own.
var generalHints = map[fault.Kind]string{
	fault.Internal:        "try again; if it stays, tell the people who make Legwork, with what was typed and what came out",
	fault.Invalid:         "correct what is named and try again; --help shows how a command is used",
	fault.Unauthenticated: "check LEGWORK_TOKEN or --token-file",
	fault.Forbidden:       "use a token with more rights, or ask an owner of the Organization",
	fault.NotFound:        "check the name; the list command of the same word shows what there is",
	fault.Conflict:        "look at how things stand now (the show and list commands tell), then try again",
	fault.TooLarge:        "send less at once",
	fault.RateLimited:     "wait a little and try again",
	fault.Unavailable:     "wait a little and try again; the Server's own log tells more",
	fault.Failed:          "its log tells why: legwork job logs",
	fault.Unsupported:     "look whether Server, Runner and command line are of the same version",
}

// errInterrupted is a command that the user ended.
var errInterrupted = errors.New("interrupted")

// wasInterrupted reports whether the user ended the command.
func wasInterrupted(err error) bool {
	return errors.Is(err, errInterrupted) || errors.Is(err, context.Canceled) && !isFault(err)
}

// taskStatus is the exit status of one of Programs.Tasks, which said itself what there is to say.
type taskStatus int

func (s taskStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// alreadySaid is an error that the user knows of.
type alreadySaid struct{ error }

func (e alreadySaid) Unwrap() error { return e.error }
