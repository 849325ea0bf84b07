package boot

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"legwork/internal/catalog"
	"legwork/internal/cli"
	"legwork/internal/confine"
	"legwork/internal/engine/discovery"
	"legwork/internal/fault"
	"legwork/internal/process"
	"legwork/internal/runner"
)

// Programs gives the command line what it starts.
func Programs() cli.Programs {
	return cli.Programs{
		Version: Version(),
		Server: func(ctx context.Context, o cli.StartOptions, log io.Writer) error {
			if err := process.KeepPrivate(); err != nil {
				return err
			}
			settings, err := LoadServerSettings(layers(o))
			if err != nil {
				return err
			}
			if o.Hold {
				if err := holdDatabase(ctx, settings, "the server was started with --hold"); err != nil {
					return err
				}
			}
			return RunServer(ctx, settings, log, func(string) {})
		},
		RotateKey:  rotateKey,
		AdminToken: resetAdminToken,
		Backup:     backUp, VerifyBackup: verifyBackup, Restore: restore, Migrate: migrateDatabase,
		Runner:     startRunner,
		Register:   registerRunner,
		Unregister: unregisterRunner,
		Keep: func(ctx context.Context, dir string) error {
			return RunKeeper(ctx, dir, os.Stderr)
		},
		Tasks: map[string]func(context.Context, string) int{
			"round":    private(func(ctx context.Context, file string) int { return runner.RunRound(ctx, file, os.Environ(), os.Stdout) }),
			"discover": private(func(ctx context.Context, file string) int { return discovery.Main(ctx, file, os.Stdout) }),
			"launch":   private(func(ctx context.Context, file string) int { return launchers.Main(ctx, file, os.Stdout) }),
		},
		Confine: func(text string, argv []string) error {
			policy, err := confine.Parse(text)
			if err != nil {
				return fmt.Errorf("read the policy of a confined command: %w", err)
			}
			return confine.Exec(policy, argv, os.Environ())
		},
		Dev: func(ctx context.Context, o cli.DevOptions, out io.Writer) error {
			return RunDev(ctx, DevOptions(o), out)
		},
		Schema: schema,
	}
}

// private makes a task keep its memory and its environment, which hold secrets, from other processes of the same user.
func private(task func(context.Context, string) int) func(context.Context, string) int {
	return func(ctx context.Context, file string) int {
		if err := process.KeepPrivate(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		if err := process.TakeHandedOver(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		return task(ctx, file)
	}
}

func layers(o cli.StartOptions) Layers {
	return Layers{File: o.File, Environ: os.Environ(), Flags: o.Flags, FlagNames: o.FlagNames}
}

// startRunner counts signals itself: the first is no end of ctx but the wish to drain.
func startRunner(ctx context.Context, o cli.StartOptions, log io.Writer) error {
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, endSignals...)
	defer signal.Stop(signals)
	if ctx.Err() != nil { // a signal came before, and nobody counted it
		return context.Cause(ctx)
	}
	if err := process.KeepPrivate(); err != nil {
		return err
	}
	environ, err := process.WithoutSettings(runner.IsSetting)
	if err != nil {
		return err
	}
	process.AwaitInherited() // when this process was another release before
	from := layers(o)
	from.Environ = environ
	settings, err := LoadRunnerSettings(from)
	if err != nil {
		return err
	}
	settings.environ = environ
	forgetSettings()
	if err := ensureRegistered(ctx, &settings, newLog(log, settings.Logging.Format, settings.Logging.Level)); err != nil {
		return err
	}
	return RunRunner(context.WithoutCancel(ctx), settings, signals, log)
}

// forgetSettings takes the Runner's own settings, its secret among them, out of the environment, so that no
// program that it starts inherits them.
func forgetSettings() {
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); runner.IsSetting(name) {
			_ = os.Unsetenv(name)
		}
	}
}

func schema(name string) ([]byte, error) {
	switch name {
	case "manifest":
		return catalog.ManifestSchema()
	case "runner":
		return RunnerSchema()
	case "server":
		return ServerSchema()
	}
	return nil, fault.New(fault.Invalid, "usage", "there is no schema %q", name).WithHint("there are manifest, runner and server")
}
