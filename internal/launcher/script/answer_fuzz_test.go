package script

import (
	"errors"
	"testing"

	"legwork/internal/fault"
	"legwork/internal/work"
)

// FuzzUnderstand checks that what a script prints is refused with a sentence, or is an answer that a Runner can report:
// known states, names and notes within bounds, an id for each process that is there.
func FuzzUnderstand(f *testing.F) {
	f.Add([]byte(`{"said": ["starts a"], "units": [
		{"name": "a", "id": "i-1", "state": "running"},
		{"name": "b", "state": "stopped", "note": "ended"}]}`), "ensure", false)
	f.Add([]byte(`{"error": {"code": "launcher_quota", "message": "no more", "retryable": true}}`), "list", true)
	f.Add([]byte(``), "remove", false)
	f.Add([]byte(`{"units": [{"name": "", "state": "running"}]}`), "list", false)
	f.Add([]byte(`{"error": {"code": "\u0000"}}`), "stop", true)
	f.Fuzz(func(t *testing.T, out []byte, action string, failed bool) {
		printed := &bounded{left: maxOutput}
		_, _ = printed.Write(out) // never fails
		var ended error
		if failed {
			ended = errors.New("exit status 1")
		}
		l := &Launcher{}
		a, err := l.understand(t.Context(), action, printed, ended)
		if err != nil {
			if fault.Of(err).Message == "" && fault.Code(err) == "" {
				t.Errorf("%q: got %v, want a sentence and a code", out, err)
			}
			return
		}
		if failed {
			t.Errorf("%q: got an answer of a script that failed", out)
		}
		if len(a.Units) > work.MaxUnits {
			t.Errorf("processes: got %d, want at most %d", len(a.Units), work.MaxUnits)
		}
		for _, u := range a.Units {
			known := u.State == work.UnitStarting || u.State == work.UnitRunning || u.State == work.UnitStopped
			short := u.Name != "" && len(u.Name) <= 200 && len(u.Note) <= maxText
			if !known || !short || u.ID == "" && u.State != work.UnitStopped {
				t.Errorf("process: got %+v, want it refused", u)
			}
		}
	})
}
