package control

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/release"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// published puts releases into the store that have a program for linux/amd64.
func (s *server) published(versions ...string) {
	s.t.Helper()
	for _, version := range versions {
		channel, err := release.ChannelOf(version)
		s.must(err)
		m := release.Manifest{Version: version, Channel: channel, Assets: []release.Asset{
			{Name: "legwork", OS: "linux", Arch: "amd64", Kind: release.Binary, Size: 1, SHA256: strings.Repeat("0", 64)}}}
		text, err := m.Marshal()
		s.must(err)
		s.must(s.store.Update(context.Background(), func(tx *store.Tx) error {
			return tx.PutRelease(&store.Release{Version: version, Channel: string(channel), State: store.ReleasePublished, Manifest: text, Signature: []byte("signed")})
		}))
	}
}

// old is an Instance of an old release that may be updated.
func (s *server) old(r catalog.Runner, name string) *fake {
	f := s.fake(r, name)
	f.hello.Version, f.hello.Updates = "v1.1.0", "minor"
	f.hello.Engines["update"] = "1"
	return f
}

// TestUpgradeOneAfterTheOther updates a Runner of two Instances that are full: the second one is asked when the first is done.
func TestUpgradeOneAfterTheOther(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.scripts(s.owner(), 2)
	s.published("1.1.0", "1.2.0")
	fakes := map[string]*fake{}
	for n, name := range []string{"a", "b"} { // the second one when the first is full
		f := s.old(r, name).online(s)
		s.submit(fmt.Sprintf("prod/net/m%d", n), work.Run)
		m := f.take()
		f.start(m.Ref, m.Step)
		fakes[name] = f
	}
	jobs, err := s.c.UpgradeRunner(context.Background(), s.owner(), "edge", "")
	s.must(err)
	again, err := s.c.UpgradeRunner(context.Background(), s.owner(), "edge", "")
	s.must(err)
	if len(jobs) != 2 || len(again) != 2 || again[0].ID != jobs[0].ID || again[1].ID != jobs[1].ID {
		t.Fatalf("queued are %v and then %v", jobs, again)
	}
	for n, name := range []string{"a", "b"} {
		f := fakes[name]
		o := expectThat(f, func(m *wire.Offer) bool { return m.Engine == "update" })
		if o.Job != jobs[n].ID {
			t.Fatalf("offered is %s, not %s", o.Job, jobs[n].ID)
		}
		if n == 0 {
			if other := s.job(jobs[1].ID); other.Status != work.Queued {
				t.Errorf("the other update is %s", other.Status)
			}
		}
		f.send(&wire.Accept{Ref: o.Ref})
		m := expectThat(f, func(m *wire.RunStep) bool { return m.Ref == o.Ref })
		task := m.Spec.Task
		if task == nil || task.Release == nil || task.Release.Version != "1.2.0" || task.Release.Path != "releases/1.2.0" || string(task.Release.Signature) != "signed" {
			t.Fatalf("the task is %+v", task)
		}
		versions, err := s.c.RunnerVersions(context.Background(), s.owner())
		s.must(err)
		if v := versions[r.ID]; !v.Outdated || v.Updating == nil || v.Updating.ID != jobs[n].ID || v.Newest != "1.2.0" || v.Consent != release.Minor {
			t.Errorf("meanwhile the Runner is %+v", v)
		}
		f.run(m, 1, work.StepResult{})
		s.until(jobs[n].ID, work.Succeeded)
	}
	entries, err := s.c.Audit(context.Background(), s.owner(), AuditFilter{})
	s.must(err)
	asked := 0
	for _, e := range entries {
		if e.Action == "runner.upgrade" && e.ActorID == s.owner().ID {
			asked++
		}
	}
	if asked == 0 {
		t.Error("the audit does not say who asked")
	}
}

// TestUpgradeEndsWithAFailure has the first of three updates fail: the others are canceled, and no Instance was asked for them.
func TestUpgradeEndsWithAFailure(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.published("1.2.0")
	a, b, c := s.old(r, "a").online(s), s.old(r, "b").online(s), s.old(r, "c").online(s)
	jobs, err := s.c.UpgradeRunner(context.Background(), s.owner(), "edge", "v1.2.0")
	s.must(err)
	m := a.take()
	a.run(m, 0, work.StepResult{Status: work.StepFailed, Failure: &work.Failure{Code: "update_rolled_back", Message: "1.2.0 ended"}})
	s.until(jobs[0].ID, work.Failed)
	for _, j := range jobs[1:] {
		j = s.until(j.ID, work.Canceled)
		if j.Cancel == nil || !strings.Contains(j.Cancel.Reason, "the update before it") || j.Attempt != 0 {
			t.Errorf("it is canceled by %+v", j.Cancel)
		}
	}
	for _, f := range []*fake{b, c} {
		f.cut()
		for _, m := range f.passed {
			if _, ok := m.(*wire.Offer); ok {
				t.Error("an Instance was asked for an update that is canceled")
			}
		}
	}
}

// TestUpgradeRefused names why a Runner is not updated.
func TestUpgradeRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change        func(*wire.Hello)
		version, code string
		want          string
	}{
		"no consent":     {func(h *wire.Hello) { h.Updates = "notify" }, "", "update_refused", "instance a: 1.2.0 is available, but this host is set to notify only"},
		"off":            {func(h *wire.Hello) { h.Updates = "off" }, "", "update_refused", "updates is off"},
		"no patch":       {func(h *wire.Hello) { h.Updates = "patch" }, "", "update_refused", "more than a patch"},
		"no minor":       {func(*wire.Hello) {}, "2.0.0", "update_refused", "changes the first number"},
		"lower":          {func(*wire.Hello) {}, "1.0.0", "update_refused", "1.0.0 is not newer than 1.1.0"},
		"the same":       {func(h *wire.Hello) { h.Version = "1.2.0" }, "", upToDate, "is 1.2.0 already"},
		"built by hand":  {func(h *wire.Hello) { h.Version = "v1.1.0-4-gabc1234" }, "", "update_refused", "no version of a release"},
		"other platform": {func(h *wire.Hello) { h.Arch = "riscv64" }, "", "release_platform", "linux/riscv64"},
		"windows":        {func(h *wire.Hello) { h.OS = "windows" }, "", "update_unsupported", "windows"},
		"local":          {func(h *wire.Hello) { h.Updates = "" }, "", "update_unsupported", "part of another program"},
		"nonsense":       {func(h *wire.Hello) { h.Updates = "always" }, "", "update_unsupported", "part of another program"},
		"unknown":        {func(*wire.Hello) {}, "1.9.0", "release_not_found", "1.9.0"},
		"withdrawn":      {func(*wire.Hello) {}, "1.1.5", "release_withdrawn", "was withdrawn"},
		"no version":     {func(*wire.Hello) {}, "newest", "release_version", "newest"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWorld(t).serve(Limits{})
			r := s.runner(s.owner(), catalog.RunnerSpec{})
			s.published("1.0.0", "1.1.5", "1.2.0")
			if c.version == "2.0.0" {
				s.published("2.0.0")
			}
			s.must(s.store.Update(context.Background(), func(tx *store.Tx) error {
				v, err := tx.Release("1.1.5")
				if err == nil {
					v.State = store.ReleaseWithdrawn
					err = tx.PutRelease(&v)
				}
				return err
			}))
			f := s.old(r, "a")
			c.change(&f.hello)
			f.online(s)
			jobs, err := s.c.UpgradeRunner(context.Background(), s.owner(), "edge", c.version)
			if got := fault.Of(err); err == nil || got.Code != c.code || !strings.Contains(got.Message, c.want) {
				t.Errorf("%v, %v (%s)", jobs, err, fault.Code(err))
			}
		})
	}
	t.Run("offline", func(t *testing.T) {
		s := newWorld(t).serve(Limits{})
		s.runner(s.owner(), catalog.RunnerSpec{})
		s.published("1.2.0")
		if _, err := s.c.UpgradeRunner(context.Background(), s.owner(), "edge", ""); fault.Code(err) != "runner_offline" {
			t.Errorf("%v", err)
		}
		viewer := s.owner()
		viewer.Role = catalog.RoleViewer
		if _, err := s.c.UpgradeRunner(context.Background(), viewer, "edge", ""); !fault.Is(err, fault.Forbidden) {
			t.Errorf("a viewer: %v", err)
		}
		if _, err := s.c.UpgradeRunner(context.Background(), s.stranger(), "edge", ""); !fault.Is(err, fault.NotFound) {
			t.Errorf("a stranger: %v", err)
		}
	})
}

// TestWithdrawnWhileItWaits withdraws a release whose update waits: the Job ends, and says why.
func TestWithdrawnWhileItWaits(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.published("1.2.0")
	f := s.old(r, "a").online(s)
	jobs, err := s.c.UpgradeRunner(context.Background(), s.owner(), "edge", "")
	s.must(err)
	o := expect[*wire.Offer](f)
	s.must(s.store.Update(context.Background(), func(tx *store.Tx) error {
		v, err := tx.Release("1.2.0")
		if err == nil {
			v.State = store.ReleaseWithdrawn
			err = tx.PutRelease(&v)
		}
		return err
	}))
	f.send(&wire.Accept{Ref: o.Ref})
	if j := s.until(jobs[0].ID, work.Failed); j.Failure.Code != "release_withdrawn" {
		t.Errorf("it failed with %+v", j.Failure)
	}
}

// TestOutdated holds which programs count as outdated.
func TestOutdated(t *testing.T) {
	n := newest{release.Stable: "1.2.0", release.Candidate: "1.3.0-rc.2"}
	for version, want := range map[string]string{
		"1.1.0": "1.2.0", "v1.1.9": "1.2.0", "1.2.0": "", "1.3.0": "", "1.3.0-rc.1": "1.3.0-rc.2", "1.3.0-rc.2": "", "1.2.0-rc.1": "1.3.0-rc.2",
		"unknown": "", "(devel)": "", "": "", "v1.1.0-4-gabc1234": "", "v1.1.0-dirty": "", "v1.1.0-4-gabc1234-dirty": "", "abc1234": "",
		"v0.0.0-20261122034149-1a2b3c4d5e6f": "",
	} {
		got := n.follows(version)
		if !release.Newer(got, version) {
			got = ""
		}
		if got != want {
			t.Errorf("from %q it goes to %q, not %q", version, got, want)
		}
	}
	i := func(version string, connected bool) store.Instance {
		return store.Instance{Version: version, Connected: connected}
	}
	for want, all := range map[string][]store.Instance{
		"1.1.0": {i("1.2.0", true), i("1.1.0", true), i("1.0.0", false), i("unknown", true)},
		"1.0.0": {i("1.2.0", false), i("1.0.0", false)}, "unknown": {i("unknown", true), i("1.0.0", false)}, "": nil,
	} {
		if got := sole(all); got != want {
			t.Errorf("%v are %q, not %q", all, got, want)
		}
	}
}

// TestSkew lets in a Runner of the present and of the last capability, and tells any other what to do.
func TestSkew(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{})
	s.scripts(s.owner(), 1)
	f := s.old(r, "a")
	f.hello.Capability, f.hello.Updates = wire.OldestCapability, ""
	delete(f.hello.Engines, "update")
	f.online(s)
	if f.welcome.Capability != wire.OldestCapability {
		t.Errorf("it is welcomed with %d", f.welcome.Capability)
	}
	j := s.submit("prod/net/m0", work.Run)
	go f.work(1, nil)
	s.until(j.ID, work.Succeeded)
	for capability, want := range map[int]string{
		wire.OldestCapability - 1: "the Runner v1.1.0 is too old for this Server: upgrade the Runner",
		wire.Capability + 1:       "the Runner v1.1.0 is too new for this Server: upgrade the Server",
	} {
		g := s.old(r, "a")
		g.hello.Capability = capability
		if err := g.dial(s); wire.CodeOf(err) != wire.CloseCapability || !strings.Contains(err.Error(), want) {
			t.Errorf("capability %d: %v", capability, err)
		}
	}
}

// TestRunnersAreToldOfARelease sends one sentence about each release, to those who want it and are older.
func TestRunnersAreToldOfARelease(t *testing.T) {
	s := newWorld(t).serve(Limits{})
	r := s.runner(s.owner(), catalog.RunnerSpec{AllowMultipleInstances: true})
	s.published("1.2.0")
	f := s.old(r, "a")
	f.hello.Updates = "notify"
	f.online(s)
	if n := expect[*wire.Notice](f); !strings.Contains(n.Text, "release 1.2.0 is published, and this Runner is v1.1.0: install it") {
		t.Errorf("it is told %q", n.Text)
	}
	f.cut()
	f.online(s) // and is not told again
	s.published("1.2.1")
	s.c.tellReleases()
	if n := expect[*wire.Notice](f); !strings.Contains(n.Text, "release 1.2.1 is published") {
		t.Errorf("it is told %q", n.Text)
	}
	g := s.old(r, "b").online(s)
	if n := expect[*wire.Notice](g); !strings.Contains(n.Text, "legwork runner update edge") {
		t.Errorf("one that may be updated is told %q", n.Text)
	}
}
