package nodes

import (
	"context"
	"encoding/json"

	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"legwork/internal/work"
)

// lookEvery is how often the files are looked for by which a Runner asks that nothing further begins, or that all is killed.
const lookEvery = 100 * time.Millisecond

const (
	softMemory    = 160 << 20 // bytes of memory from which on the garbage collector works harder
	garbageGrowth = 50        // percent of what lives that may be garbage
)

// Executor performs Rounds. The zero value does, but for Ansible Items.
type Executor struct {
	Playbook Playbook
	Resolve  Resolver // nil: a step that needs a reference to a secret fails
	// Transport makes the Transport of a Round; nil means SSH and this host.
	Transport func(f *File, secrets map[string]string, environ []string) (Transport, error)
}

// Main performs the Round in file and writes its result beside it. It takes the values of Secrets out of env, and writes the
// frames of the log to stdout. It ends with 0 when the Round was performed, whatever the Nodes did, and with 1 when this
// host could not perform it.
//
// The first SIGINT, or the end of ctx, cancels what runs; the second, SIGTERM and FILE.kill kill it.
func (x Executor) Main(ctx context.Context, file string, env []string, stdout io.Writer) int {
	debug.SetGCPercent(garbageGrowth)
	debug.SetMemoryLimit(softMemory)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	return x.run(ctx, file, env, stdout, signals)
}

func (x Executor) run(ctx context.Context, file string, env []string, stdout io.Writer, signals <-chan os.Signal) int {
	variables, err := takeVariables(env)
	log := newOutput(stdout, values(variables.secrets))
	if err == nil {
		err = x.perform(ctx, file, newSecretStore(variables, x.Resolve, log), log, signals)
	}
	if err != nil {
		log.say(once, once, "the Round could not be performed: %v", err)
		return 1
	}
	return 0
}

func (x Executor) perform(ctx context.Context, file string, secrets *secretStore, log *output, signals <-chan os.Signal) error {
	if _, over, err := ReadResult(file); over && err == nil {
		return nil // it died behind its last word
	}
	f, err := readFile(file)
	if err != nil {
		return err
	}
	j, err := openJournal(JournalPath(file))
	if err != nil {
		return err
	}
	defer j.close()
	open := x.Transport
	if open == nil {
		open = newTransport
	}
	transport, err := open(f, secrets.secrets, secrets.environ)
	if err != nil {
		return err
	}
	defer transport.Close()
	r := newRound(f, j, log)
	r.path, r.secrets, r.transport, r.playbook = file, secrets, transport, x.Playbook
	if err := r.recall(file); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.look()
	watching := make(chan struct{})
	defer close(watching)
	go r.obey(file, func() { cancel(errCanceled) }, signals, watching)
	result, err := r.perform(ctx)
	if err == nil {
		err = keepState(StatePath(file), r.came())
	}
	if err != nil {
		return err
	}
	return writeResult(file, result)
}

func writeResult(file string, result work.RoundResult) error {
	data, err := json.Marshal(result)
	if err == nil {
		err = replace(ResultPath(file), data)
	}
	if err != nil {
		return fmt.Errorf("writing the result of a Round: %w", err)
	}
	return nil
}

// obey does what signals and files ask for, until over is closed.
func (r *round) obey(file string, cancel func(), signals <-chan os.Signal, over <-chan struct{}) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	canceled := false
	for {
		killed := false
		select {
		case <-over:
			return
		case s := <-signals:
			killed = canceled || s == syscall.SIGTERM
			canceled = true
		case <-look.C:
			r.look()
			if !exists(KillPath(file)) {
				continue
			}
			killed = true
		}
		cancel()
		if killed {
			r.transport.Kill()
			return
		}
	}
}

// look sees whether nothing further may begin.
func (r *round) look() {
	if exists(StopPath(r.path)) {
		r.asked.Store(true)
		r.stop()
	}
}

func values(secrets map[string]string) []string {
	var all []string
	for _, value := range secrets {
		all = append(all, value)
	}
	return all
}
