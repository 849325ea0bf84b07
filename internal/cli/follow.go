package cli

import (
	"context"
	"fmt"
	"sync"
	"time"

	"legwork/internal/api"
	"legwork/internal/fault"
	"legwork/internal/work"
)

const (
	lookPeriod  = time.Second            // between looks at a Job that prints nothing
	quietBefore = 500 * time.Millisecond // of silence before the status line shows
	spinPeriod  = 120 * time.Millisecond
)

// follower shows one Job until it is over: its log on standard output, and on standard error why it waits and
// what it is doing.
type follower struct {
	app    *app
	client *api.Client
	log    *logPrinter
	out    *outputDir // nil: none

	mu      sync.Mutex
	job     *work.Job
	said    work.Wait // the last reason for waiting that was printed
	asked   bool      // the approval was asked for
	away    bool      // the Server did not answer the last look
	printed time.Time // when the log last said something
	shown   bool      // a status line stands on the terminal
	turn    int
}

// follow shows a Job until it is over. Its error says how the Job ended, nil when it succeeded. An interrupt
// ends the following and not the Job.
func (a *app) follow(ctx context.Context, client *api.Client, job *work.Job, raw bool, of ...api.LogQuery) error {
	return a.followInto(ctx, client, job, raw, nil, of...)
}

// followInto is follow that writes what Nodes print into a folder, too, unless that is nil.
func (a *app) followInto(ctx context.Context, client *api.Client, job *work.Job, raw bool, out *outputDir, of ...api.LogQuery) error {
	f := &follower{app: a, client: client, job: job, log: a.newLogPrinter(job.Steps, raw), out: out, printed: time.Now()}
	watching, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { f.watch(watching) })
	ended, err := client.FollowLog(ctx, job.ID, 0, f.lines, of...)
	stop()
	watcher.Wait()
	f.erase()
	if ctx.Err() != nil {
		fmt.Fprintf(a.Err, "Job #%d goes on without being followed. Follow it again: legwork job logs -f %d. Cancel it: legwork job cancel %d.\n", job.Number, job.Number, job.Number)
		return alreadySaid{errInterrupted}
	}
	if err != nil {
		return err
	}
	if ended.IsRun() {
		if err := a.runSummary(ctx, client, ended); err != nil {
			return err
		}
	}
	if out != nil {
		if err := out.finish(ctx, client, ended); err != nil {
			return err
		}
	}
	doubt, err := doubts(ctx, client, ended)
	if err != nil {
		return err
	}
	return a.outcome(ended, f.log.told(ended.Failure), doubt)
}

// lines prints what came of the log.
func (f *follower) lines(lines []api.LogLine) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wipe()
	f.printed = time.Now()
	if f.out != nil {
		f.out.add(lines)
	}
	return f.log.print(lines)
}

// watch looks at the Job while its log is silent, and keeps the status line.
func (f *follower) watch(ctx context.Context) {
	period := lookPeriod
	if f.app.err.is {
		period = spinPeriod
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	looked := time.Now()
	f.sayWait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if time.Since(looked) >= lookPeriod && f.quiet(quietBefore) {
			f.look(ctx)
			looked = time.Now()
		}
		f.status()
	}
}

func (f *follower) quiet(d time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Since(f.printed) >= d
}

// look gets the Job as it is now. That it cannot be had is no trouble yet: the log says when the Server is gone for good.
func (f *follower) look(ctx context.Context) {
	job, err := f.client.Job(ctx, f.job.ID)
	if ctx.Err() != nil {
		return
	}
	f.mu.Lock()
	if err == nil {
		f.job = job
	} else if !f.away && !f.app.err.is {
		fmt.Fprintln(f.app.Err, away)
	}
	f.away = err != nil
	f.mu.Unlock()
	f.sayWait()
}

const away = "the Server does not answer; trying again"

// sayWait prints a new reason for waiting where no status line shows it.
func (f *follower) sayWait() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.job.Status == work.AwaitingApproval && !f.asked {
		f.asked = true
		f.wipe()
		fmt.Fprintf(f.app.Err, "Job #%d waits for approval: legwork job approve %d, or decline %d --reason TEXT.\n", f.job.Number, f.job.Number, f.job.Number)
	}
	if f.app.err.is || f.job.Status != work.Queued || f.job.Wait == f.said || f.job.Wait.Code == work.WaitNone || f.job.Wait.Code == work.WaitDispatch {
		return
	}
	f.said = f.job.Wait
	fmt.Fprintf(f.app.Err, "waiting: %s\n", clean(f.job.Wait.Text))
}

var spinner = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// status writes the status line over the last one, while the log is silent and at the beginning of a line.
func (f *follower) status() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.app.err.is || f.log.midLine() || time.Since(f.printed) < quietBefore {
		return
	}
	f.turn++
	now := clean(doing(f.job, time.Now()))
	if f.away {
		now = away
	}
	line := fmt.Sprintf("%s #%d %s", spinner[f.turn%len(spinner)], f.job.Number, now)
	fmt.Fprintf(f.app.Err, "\r\x1b[K%s", f.app.err.paint(dim, cutTo(line, f.app.err.width(f.app.Err)-1)))
	f.shown = true
}

// erase takes the status line away. wipe does so for a caller that holds mu.
func (f *follower) erase() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wipe()
}

func (f *follower) wipe() {
	if f.shown {
		fmt.Fprint(f.app.Err, "\r\x1b[K")
		f.shown = false
	}
}

// doing says in a few words what a Job does or waits for.
func doing(job *work.Job, now time.Time) string {
	switch job.Status {
	case work.Queued:
		if job.Wait.Text == "" {
			return "queued"
		}
		return "waiting: " + job.Wait.Text
	case work.Running:
		if job.Notice != "" {
			return job.Notice
		}
		if i := job.Current(); i < len(job.Steps) && !job.Steps[i].StartedAt.IsZero() {
			return fmt.Sprintf("%s, for %s", stepName(job.Steps[i]), took(now.Sub(job.Steps[i].StartedAt)))
		}
	case work.AwaitingApproval:
		return "waits for approval"
	case work.Interrupted:
		return "interrupted: its Runner is gone and may come back"
	}
	return string(job.Status)
}

func cutTo(line string, width int) string {
	runes := []rune(line)
	if width <= 0 || len(runes) <= width {
		return line
	}
	return string(runes[:width-1]) + "…"
}

// outcome says how a Job ended, and is an error unless it succeeded. What failed is not said again to a person
// who sees log and error on one terminal; a standard error of its own always gets the reason. doubt is what doubts says.
func (a *app) outcome(job *work.Job, told bool, doubt string) error {
	if job.Status == work.Succeeded {
		fmt.Fprintf(a.Err, "%s\n", a.err.paint(green, fmt.Sprintf("Job #%d succeeded in %s%s%s.", job.Number, took(runTime(job, job.FinishedAt)), planned(job), doubt)))
		return nil
	}
	return jobFault(job, told && a.out.is && a.err.is)
}

// begun gives when the first Step of the present Attempt began; the zero time when none has.
func begun(job *work.Job) time.Time {
	for _, step := range job.Steps {
		if !step.StartedAt.IsZero() {
			return step.StartedAt
		}
	}
	return time.Time{}
}

// runTime gives how long the present Attempt of a Job has been at work, without the time that the Job waited before.
func runTime(job *work.Job, now time.Time) time.Duration {
	if begun(job).IsZero() {
		return 0
	}
	return now.Sub(begun(job))
}

// planned says what the plan of a Job came to, if it has one.
func planned(job *work.Job) string {
	for _, step := range job.Steps {
		if p := step.Plan; p != nil {
			if p.Empty() {
				return ": nothing to change"
			}
			if job.Action == work.Plan {
				return ": " + toDo(p)
			}
			return fmt.Sprintf(": %d added, %d changed, %d destroyed", p.Add, p.Change, p.Destroy)
		}
	}
	return ""
}

// toDo says what a plan would do.
func toDo(p *work.PlanSummary) string {
	return fmt.Sprintf("%d to add, %d to change, %d to destroy", p.Add, p.Change, p.Destroy)
}

// jobFault tells of a Job that did not succeed; of its failure only when it was not told before.
func jobFault(job *work.Job, told bool) error {
	var reason, hint string
	if job.Failure != nil && !told {
		reason, hint = ": "+job.Failure.Message, job.Failure.Hint
	}
	switch {
	case job.Status == work.Canceled && job.Cancel != nil:
		reason = ": by " + job.Cancel.By
		if job.Cancel.Reason != "" {
			reason += " (" + job.Cancel.Reason + ")"
		}
	}
	verb := map[work.Status]string{
		work.Failed: "failed", work.Canceled: "was canceled", work.Superseded: "was superseded", work.Declined: "was declined",
		work.Expired: "expired",
	}[job.Status]
	if verb == "" {
		verb = "is " + string(job.Status)
	}
	f := fault.New(fault.Failed, "job_"+string(job.Status), "job #%d %s%s", job.Number, verb, reason)
	if hint == "" {
		hint = fmt.Sprintf("for its steps and failures, see: legwork job show %d", job.Number)
	}
	return f.WithHint("%s", hint)
}
