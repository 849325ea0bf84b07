package boot

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"legwork/internal/fault"
	"legwork/internal/release"
	"legwork/internal/runner"
)

// endSignals ask a Runner to end.
var endSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

// updateTimeoutMost bounds Runner.update_timeout.
const updateTimeoutMost = time.Hour

func (s *RunnerSettings) checkUpdates(problem report) {
	if _, err := release.Trusted(s.Runner.ReleaseKeys); err != nil {
		problem("Runner.release_keys", "%s", fault.Of(err).Message)
	}
	if d := time.Duration(s.Runner.UpdateTimeout); d < time.Second || d > updateTimeoutMost {
		problem("Runner.update_timeout", "must be between 1s and 1h, not %s", d)
	}
}

// updates says what a Server may do to the program that runs from a file. One that ends with its Job is never replaced.
func (s *RunnerSettings) updates(self string) runner.Updates {
	keys, err := release.Trusted(s.Runner.ReleaseKeys)
	if err != nil || s.Runner.OneOff {
		return runner.Updates{}
	}
	environ := s.environ
	if environ == nil {
		environ = os.Environ()
	}
	return runner.Updates{Consent: release.Consent(s.Runner.Updates), Keys: keys, Program: self, Args: os.Args, Environ: environ,
		Timeout: time.Duration(s.Runner.UpdateTimeout)}
}

// isTrial tells whether this process is only tried beside the Runner that it is to replace; see runner.TrialVar.
func (s *RunnerSettings) isTrial() bool { return slices.Contains(s.environ, runner.TrialVar+"=1") }

// tryRunner tells the process that tries this one when it is online, and returns when it is asked to leave: when its standard input ends.
func tryRunner(ctx context.Context, cfg runner.Config, log *slog.Logger) error {
	speaks := os.NewFile(runner.TrialPipe, "trial")
	if speaks == nil {
		return fault.New(fault.Invalid, "usage", "%s is set, and nobody listens", runner.TrialVar).WithHint("unset it: it is for updates alone")
	}
	defer speaks.Close()
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		leave()
	}()
	var once sync.Once
	return runner.New(cfg).Try(ctx, func() {
		once.Do(func() {
			if err := json.NewEncoder(speaks).Encode(runner.TrialWord{Online: true, Version: cfg.Version}); err != nil {
				log.Warn("nobody hears that this program is online", "error", err)
				leave()
			}
		})
	})
}

// errStay says that a program cannot be executed, and that another Runner is to be run in this process.
var errStay = errors.New("the program cannot be executed: the Runner goes on as it was")

// endedWith does what follows when a Runner has ended. Where its program was replaced, this process goes on as that one, with what it began
// with: then it does not return. But a Runner that is to end does: its new program is in place for whoever starts it again.
func endedWith(err error, cfg runner.Config, isEnding func() bool, signals chan os.Signal) error {
	if !errors.Is(err, runner.ErrReplaced) {
		return err
	}
	// From here on a signal ends this process as it would any other, rather than being lost with what it is now.
	signal.Reset(endSignals...)
	if isEnding() || len(signals) > 0 {
		return nil
	}
	u := cfg.Updates
	reason := execute(u.Program, u.Args, u.Environ)
	signal.Notify(signals, endSignals...)
	if err := runner.StayAfter(cfg, reason); err != nil {
		return err
	}
	return errStay
}
