package runner

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"legwork/internal/fault"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// TestPermanentRefusals ends a Runner with a sentence and a hint where trying again is in vain.
func TestPermanentRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*fakeServer, *Config)
		kind   fault.Kind
		says   string
	}{
		{"wrong secret", func(_ *fakeServer, cfg *Config) { cfg.ClientSecret = "wrong" }, fault.Unauthenticated, "login"},
		{"unknown Runner", func(s *fakeServer, _ *Config) { s.refuse = &wire.CloseError{Code: wire.CloseUnknown} }, fault.NotFound, "runner-1"},
		{"wrong Organization", func(s *fakeServer, _ *Config) { s.refuse = &wire.CloseError{Code: wire.CloseOrganization} }, fault.Forbidden, "Organization"},
		{"too old", func(s *fakeServer, _ *Config) {
			s.refuse = &wire.CloseError{Code: wire.CloseCapability, Reason: "upgrade the Runner to 2.0"}
		}, fault.Unsupported, "upgrade the Runner to 2.0"},
		{"not Legwork", func(_ *fakeServer, cfg *Config) { cfg.ServerURL += "/elsewhere" }, fault.Unsupported, "not a Legwork Server"},
		{"CA file missing", func(_ *fakeServer, cfg *Config) { cfg.CAFile = "/nowhere.pem" }, fault.Invalid, "/nowhere.pem"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t)
			cfg := testConfig(t, s)
			c.change(s, &cfg)
			r := New(cfg)
			err := r.Run(t.Context())
			f := fault.Of(err)
			if f.Kind != c.kind || f.Hint == "" || !strings.Contains(f.Message, c.says) || strings.Contains(f.Message+f.Hint, "wrong horse") {
				t.Errorf("got %v: %s (%s)", f.Kind, f.Message, f.Hint)
			}
		})
	}
}

func TestUnreachableIsTriedAgain(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	down := true
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if down {
			down = false
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		http.Redirect(w, r, s.url()+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer front.Close()
	cfg.ServerURL = front.URL
	err := New(cfg).Run(t.Context())
	if f := fault.Of(err); f.Code != wire.NotLegwork || !strings.Contains(f.Hint, s.url()) { // the second answer is what counts
		t.Errorf("got %v, hint %q", err, f.Hint)
	}
}

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		lost := errors.New("connection lost")
		for i := range 20 {
			wait, final := p.next(lost, false, time.Second)
			if most := min(wire.FirstWait<<min(i, 10), wire.LastWait); final != nil || wait < most/2 || wait > most {
				t.Fatalf("try %d: %v %v", i, wait, final)
			}
		}
		if wait, _ := p.next(lost, true, time.Hour); wait > wire.FirstWait {
			t.Errorf("after a long Session: %v", wait)
		}
		rival := &wire.CloseError{Code: wire.CloseDuplicate}
		if _, final := p.next(rival, false, 0); final != nil {
			t.Errorf("a rival is given up at once: %v", final)
		}
		time.Sleep(work.DefaultLease)
		if _, final := p.next(rival, false, 0); final != nil {
			t.Errorf("a rival is given up before its Lease is over: %v", final)
		}
		time.Sleep(work.DefaultLease)
		if _, final := p.next(rival, false, 0); final == nil || final.Kind != fault.Conflict || final.Hint == "" {
			t.Errorf("a rival that stays: %v", final)
		}
		if _, final := new(pace).next(fault.New(fault.Unsupported, wire.WrongScheme, "x"), false, 0); final == nil {
			t.Error("a wrong scheme is tried for ever")
		}
		for range 20 {
			if wait, _ := p.next(lost, false, 0); wait > 10*time.Second {
				t.Fatalf("a mended network is not used for %v", wait)
			}
		}
		if _, final := p.next(fault.New(fault.Unsupported, wire.NotLegwork, "x"), false, 0); final != nil {
			t.Errorf("a Server that was there before and is not now: %v", final)
		}
	})
}

// TestServerThatAnsweredIsTriedAgain: what gave a token is a Server of ours, whatever stands in its place for a while.
func TestServerThatAnsweredIsTriedAgain(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	var hub atomic.Int32
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == wire.HubPath && hub.Add(1) == 1 {
			w.WriteHeader(http.StatusNotImplemented)
			return
		}
		s.http.Config.Handler.ServeHTTP(w, r)
	}))
	defer front.Close()
	cfg.ServerURL = front.URL
	r := start(t, cfg)
	s.wait("a Session", func() bool { return s.conn != nil })
	s.cut()
	r.leave(t)
}

// TestARotatedSecretIsTakenAtOnce: the old secret ended, and the new one lies where the old one did.
func TestARotatedSecretIsTakenAtOnce(t *testing.T) {
	s := newServer(t)
	cfg := testConfig(t, s)
	cfg.ClientSecret = "what was there at the start"
	var looks atomic.Int32
	cfg.RereadSecret = func(context.Context) string {
		looks.Add(1)
		return s.secret
	}
	r := start(t, cfg)
	s.wait("a Session", func() bool { return s.conn != nil })
	r.leave(t)
	if looks.Load() != 1 {
		t.Errorf("looked %d times", looks.Load())
	}
}

// TestARefusedLoginIsTriedForAWhile where the Server knew the Runner.
func TestARefusedLoginIsTriedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := fault.New(fault.Unauthenticated, "login_refused", "x")
		if _, final := new(pace).next(refused, false, 0); final == nil {
			t.Error("one that was never known goes on")
		}
		p := pace{known: true}
		began := time.Now()
		for tries := 0; ; tries++ {
			wait, final := p.next(refused, false, 0)
			if final != nil {
				if lasted := time.Since(began); lasted < 15*time.Minute || lasted > 16*time.Minute || tries > 100 {
					t.Errorf("gave up after %v and %d tries", lasted, tries)
				}
				break
			}
			time.Sleep(wait)
		}
		_, _ = p.next(errors.New("lost"), true, time.Hour)
		if _, final := p.next(refused, false, 0); final != nil {
			t.Error("a welcome does not begin it anew")
		}
	})
}
