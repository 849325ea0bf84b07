//go:build soak && linux

package harness_test

import (
	"encoding/json"
	"os"
	"syscall"
	"time"

	"legwork/internal/work"
)

// fault does one thing at random. What cannot be done now, because the victim is down already, is left out.
func (k *soak) fault() {
	kinds := []struct {
		weight int
		do     func() string
	}{
		{6, k.killRunner}, {3, k.killHost}, {2, k.killServer}, {4, k.stopRunner}, {4, k.cutLine},
		{2, k.drain}, {2, k.disable}, {6, k.cancel}, {1, k.rotate}, {4, k.slowLine}, {3, k.upgrade}, {1, k.fillDisk},
	}
	sum := 0
	for _, f := range kinds {
		sum += f.weight
	}
	at := k.rng.IntN(sum)
	for _, f := range kinds {
		if at -= f.weight; at < 0 {
			if name := f.do(); name != "" {
				k.faults[name]++
			}
			return
		}
	}
}

// victim gives a host to which nothing is being done, or nil.
func (k *soak) victim() *host {
	if h := k.hosts[k.rng.IntN(len(k.hosts))]; !h.busy {
		return h
	}
	return nil
}

// down ends the Runner on a host and starts it again after a while.
func (k *soak) down(h *host, most time.Duration) {
	h.busy, h.up = true, false
	h.Kill()
	k.later(0, most, func() {
		h.Start()
		h.busy, h.up = false, true
	})
}

func (k *soak) killRunner() string {
	h := k.victim()
	if h == nil {
		return ""
	}
	k.down(h, 12*time.Second)
	return "Runner killed"
}

// hostKilled is the one fault that may cost a Job what it was doing.
const hostKilled = "Runner and keeper killed"

func (k *soak) killHost() string {
	h := k.victim()
	if h == nil {
		return ""
	}
	k.down(h, 30*time.Second)
	h.EndKeeper()
	return hostKilled
}

func (k *soak) killServer() string {
	if !k.up || k.full { // it does not start on a full disk
		return ""
	}
	name := "Server killed"
	if k.rng.IntN(3) == 0 {
		name = "Server stopped with SIGTERM"
		k.s.Signal(syscall.SIGTERM)
		k.s.Wait()
	} else {
		k.s.Kill()
	}
	k.up = false
	k.later(0, 5*time.Second, func() {
		k.s.Start()
		k.a.http.CloseIdleConnections() // to the one before
		k.up = true
	})
	return name
}

func (k *soak) stopRunner() string {
	h := k.victim()
	if h == nil {
		return ""
	}
	h.busy = true
	h.Signal(syscall.SIGSTOP)
	k.later(time.Second, 20*time.Second, func() {
		h.Signal(syscall.SIGCONT)
		h.busy = false
	})
	return "Runner stopped and continued"
}

func (k *soak) cutLine() string {
	h := k.victim()
	if h == nil {
		return ""
	}
	h.busy = true
	h.cut.Set(true)
	k.later(0, 15*time.Second, func() {
		h.cut.Set(false)
		h.busy = false
	})
	return "connection cut"
}

// slowLine has everything between a host and the Server come late.
func (k *soak) slowLine() string {
	h := k.victim()
	if h == nil {
		return ""
	}
	h.busy = true
	h.cut.Slow(time.Duration(20+k.rng.IntN(400)) * time.Millisecond)
	k.later(time.Second, 15*time.Second, func() {
		h.cut.Slow(0)
		h.busy = false
	})
	return "connection slow"
}

// upgrade replaces the Runner's process by one of another program, at once; the keeper of the one before goes on.
func (k *soak) upgrade() string {
	h := k.victim()
	if h == nil {
		return ""
	}
	if h.Kill(); h.upgraded {
		h.SetBinary("")
	} else {
		h.SetBinary(k.other)
	}
	h.upgraded = !h.upgraded
	h.Start()
	return "Runner upgraded in place"
}

// fillDisk leaves the Server no room for a while.
func (k *soak) fillDisk() string {
	if k.disk == "" || !k.up || k.full || !resize(k.t, k.disk, false) {
		return ""
	}
	k.full = true
	k.later(0, 4*time.Second, func() {
		resize(k.t, k.disk, true)
		k.full = false
	})
	return "disk of the Server full"
}

func (k *soak) drain() string {
	h := k.hosts[k.rng.IntN(len(k.hosts))]
	return k.undone("drained", "runner", "drain", h.record, "resume")
}

func (k *soak) disable() string {
	h := k.hosts[k.rng.IntN(len(k.hosts))]
	return k.undone("disabled", "runner", "disable", h.record, "enable")
}

// undone gives a command and after a while the one that takes it back.
func (k *soak) undone(name, noun, verb, object, back string) string {
	if !k.up || k.s.Try(noun, verb, object).Status != 0 {
		return ""
	}
	k.later(0, 8*time.Second, func() {
		if k.up {
			k.s.Try(noun, back, object)
		}
	})
	return "Runner " + name + ", and back"
}

func (k *soak) cancel() string {
	if !k.up {
		return ""
	}
	open, ok := k.open()
	if !ok || len(open) == 0 {
		return ""
	}
	j, mode := open[k.rng.IntN(len(open))], work.CancelModes[k.rng.IntN(len(work.CancelModes))]
	if status, err := k.a.call("POST", "/api/v1/jobs/"+j.ID+"/cancel", map[string]string{"mode": string(mode)}, nil); err != nil || status >= 300 {
		return ""
	}
	return "Job canceled, " + string(mode)
}

// rotate gives a Runner a new secret and starts its processes with it.
func (k *soak) rotate() string {
	record := k.hosts[k.rng.IntN(len(k.hosts))].record
	var made struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
	}
	if !k.up {
		return ""
	}
	for _, h := range k.hosts {
		if h.record == record && h.busy {
			return ""
		}
	}
	if status, err := k.a.call("POST", "/api/v1/runners/"+record+"/credential?disconnect=true", nil, &made); err != nil || status >= 300 {
		return ""
	}
	for _, h := range k.hosts {
		if h.record == record {
			k.credential(h, made.ClientID, made.ClientSecret)
			k.down(h, time.Second)
		}
	}
	return "credential rotated"
}

// credential writes a new secret into a host's settings.
func (k *soak) credential(h *host, id, secret string) {
	b, err := os.ReadFile(h.Config)
	if err != nil {
		k.t.Fatal(err)
	}
	var settings map[string]any
	if err := json.Unmarshal(b, &settings); err != nil {
		k.t.Fatal(err)
	}
	settings["Runner"].(map[string]any)["Credentials"] = map[string]any{"ClientId": id, "ClientSecret": secret}
	if b, err = json.Marshal(settings); err != nil {
		k.t.Fatal(err)
	}
	if err := os.WriteFile(h.Config, b, 0o600); err != nil {
		k.t.Fatal(err)
	}
}
