package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/engine"
	"legwork/internal/engine/discovery"
	"legwork/internal/engine/pulumi"
	"legwork/internal/engine/script"
	"legwork/internal/engine/terraform"
	"legwork/internal/launcher"
	"legwork/internal/process"
	"legwork/internal/runner"
	"legwork/internal/work"
)

// RunRunner runs a Runner until it is drained, or ctx ends. The first signal drains it, the second cancels its
// Jobs gracefully, the third kills them. When ctx ends it leaves at once; its Jobs go on under the keeper and the
// next Runner of the working directory takes them up. The program's log goes to out.
func RunRunner(ctx context.Context, settings RunnerSettings, signals chan os.Signal, out io.Writer) error {
	defer keepMemoryLow()()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	log := newLog(out, settings.Logging.Format, settings.Logging.Level)
	cfg := runnerConfig(settings, self, log)
	secret := newRefreshed(settings, log)
	cfg.CurrentSecret = currentSecret(settings, secret.current)
	cfg.RereadSecret = func(ctx context.Context) string {
		secret.refresh(ctx)
		return cfg.CurrentSecret()
	}
	refreshing, stopRefreshing := context.WithCancel(ctx)
	var refresher sync.WaitGroup
	refresher.Go(func() { secret.run(refreshing) })
	defer refresher.Wait()
	defer stopRefreshing()
	cfg.Updates = settings.updates(self)
	if settings.isTrial() {
		return tryRunner(ctx, cfg, log)
	}
	for {
		r := runner.New(cfg)
		err := endedWith(serveRunner(ctx, settings, r, signals, log), cfg, func() bool { return ctx.Err() != nil || r.IsDraining() }, signals)
		if !errors.Is(err, errStay) {
			return err
		}
		log.Error(errStay.Error(), "program", self)
	}
}

// serveRunner runs a Runner with its listener, and has it hear the signals. None is on its way to it when serveRunner returns.
func serveRunner(ctx context.Context, settings RunnerSettings, r *runner.Runner, signals <-chan os.Signal, log *slog.Logger) error {
	done := make(chan struct{})
	var hearing sync.WaitGroup
	defer hearing.Wait()
	defer close(done)
	hearing.Go(func() {
		for _, step := range []func(){r.Drain, func() { r.CancelAll(work.Graceful) }, func() { r.CancelAll(work.Kill) }} {
			select {
			case <-signals:
				step()
			case <-done:
				return
			}
		}
	})
	return withListener(ctx, settings.Runner.Listen, r, log, r.Run)
}

func runnerConfig(s RunnerSettings, self string, log *slog.Logger) runner.Config {
	dir := s.WorkingDirectory.WorkingDirectory
	return runner.Config{
		ServerURL: s.Server.URL, CAFile: s.Server.CAFile,
		OrganizationID: s.Runner.OrganizationID, RunnerID: s.Runner.ID, Instance: s.Runner.Instance,
		ClientID: s.Runner.Credentials.ClientID, ClientSecret: s.Runner.Credentials.ClientSecret.Reveal(),
		WorkingDirectory: dir, TempDirectory: s.WorkingDirectory.TempDirectory,
		FetchDirectory: s.WorkingDirectory.FetchDirectory,
		EnginePaths:    s.Engine.AdditionalBinaryPaths, Capacity: s.Runner.Capacity,
		OneOff: s.Runner.OneOff, Ephemeral: s.Runner.Lifetime == string(catalog.Ephemeral),
		DrainTimeout: time.Duration(s.Runner.DrainTimeout), Labels: s.Runner.Labels,
		Environ: os.Environ(),
		LogStream: runner.LogStream{BatchSizeLimit: s.JobLogStream.BatchSizeLimit,
			Period: time.Duration(s.JobLogStream.PeriodSeconds) * time.Second, Eager: s.JobLogStream.EagerlyEmitFirstEvent},
		Approval: runner.Approval{Enabled: s.HooksPreapproval.Enabled, Dir: s.HooksPreapproval.PreapprovedHooksDirectory,
			Variables: s.HooksPreapproval.AllowedVariables},
		Policy: s.Policy.policy(), Prune: s.WorkingDirectory.prune(), MinFree: int64(s.WorkingDirectory.MinFreeMiB) << 20,
		Grace: process.Ladder{Interrupt: time.Duration(s.Cancel.InterruptSeconds) * time.Second,
			Terminate: time.Duration(s.Cancel.TerminateSeconds) * time.Second},
		Engines: engines(s, self),
		Keeper: process.Launch{Argv: []string{self, "runner", "keep", "--dir", runner.KeeperDir(dir)},
			Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}},
		Version: Version(), Log: log, Program: self,
	}
}

// engines are those that the settings let a Server use.
func engines(s RunnerSettings, self string) engine.Set {
	set := engine.Set{
		catalog.OpenTofu:  terraform.New(catalog.OpenTofu, "tofu"),
		catalog.Terraform: terraform.New(catalog.Terraform, "terraform"),
		catalog.Pulumi:    pulumi.New(),
		catalog.Script:    script.New(),
		discovery.Name:    discovery.New(self),
	}
	if s.Runner.Launcher {
		set[launcher.Name] = launcher.NewEngine(s.launcherHost(self))
	}
	return set
}

// keeperGarbage is the percentage of its live heap that a keeper may hold in garbage: it lives long and allocates little.
const keeperGarbage = 25

// RunKeeper runs the keeper of a folder. Its log goes to out.
func RunKeeper(ctx context.Context, dir string, out io.Writer) error {
	debug.SetGCPercent(keeperGarbage)
	defer keepMemoryLow()()
	if err := process.KeepPrivate(); err != nil {
		return err
	}
	return process.RunKeeper(ctx, dir, Version(), newLog(out, "text", func(string) slog.Level { return slog.LevelInfo }))
}
