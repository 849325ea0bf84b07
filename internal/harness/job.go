package harness

import (
	"strings"

	"legwork/internal/work"
)

// Submit queues a Job and gives its number as the command line prints it: "#42".
func (s *Server) Submit(action, module string) string {
	s.t.Helper()
	args := []string{"module", action, module, "--no-follow"}
	if action == string(work.Destroy) {
		args = append(args, "--yes")
	}
	out := s.Do(args...)
	for _, w := range strings.Fields(out) {
		if strings.HasPrefix(w, "#") {
			return strings.TrimRight(w, ".,:;")
		}
	}
	s.t.Fatalf("no number of a job in %q", out)
	return ""
}

// Job gives the truth about a Job.
func (s *Server) Job(id string) work.Job {
	s.t.Helper()
	var j work.Job
	s.JSON(&j, "job", "show", id)
	return j
}

// Ends waits until a Job is over and checks its state.
func (s *Server) Ends(id string, want work.Status) work.Job {
	s.t.Helper()
	var j work.Job
	Eventually(s.t, "job "+id+" is over", func() bool {
		j = s.Job(id)
		return j.Status.Terminal()
	})
	if j.Status != want {
		s.t.Fatalf("job %s is %s, want %s: %+v\nlog:\n%s", id, j.Status, want, j.Failure, s.Log(id))
	}
	return j
}

// Reaches waits until a Step of a Job is running.
func (s *Server) Reaches(id string, step work.StepKind) {
	s.t.Helper()
	Eventually(s.t, "job "+id+" runs "+string(step), func() bool {
		j := s.Job(id)
		if j.Status.Terminal() {
			s.t.Fatalf("job %s is %s already: %+v\n%s", id, j.Status, j.Failure, s.Log(id))
		}
		for _, st := range j.Steps {
			if st.Kind == step && st.Status == work.StepRunning {
				return true
			}
		}
		return false
	})
}

// Log is the whole log of a Job as text.
func (s *Server) Log(id string) string {
	s.t.Helper()
	return s.Do("job", "logs", id)
}

// Says waits until the log of a Job contains a text.
func (s *Server) Says(id, text string) {
	s.t.Helper()
	Eventually(s.t, "job "+id+" says "+text, func() bool { return strings.Contains(s.Log(id), text) })
}
