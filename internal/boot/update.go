package boot

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"legwork/internal/fault"
	"legwork/internal/release"
	"legwork/internal/runner"
)

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

// goOnAs executes the program that took this one's place: the same process, with what it began with. It returns only when that failed.
func goOnAs(u runner.Updates) error {
	err := execute(u.Program, u.Args, u.Environ)
	return fault.New(fault.Failed, "update_exec", "the new program %s cannot be executed", u.Program).
		WithHint("start the Runner again: the program was seen to work").WithCause(err)
}

// endedWith does what follows when a Runner has ended.
func endedWith(err error, u runner.Updates) error {
	if errors.Is(err, runner.ErrReplaced) {
		return goOnAs(u)
	}
	return err
}
