package boot

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"legwork/internal/runner"
	"legwork/internal/work"
)

type fixedStatus runner.Status

func (s fixedStatus) Status() runner.Status { return runner.Status(s) }

func TestListener(t *testing.T) {
	var out bytes.Buffer
	log := newLog(&out, "json", func(string) slog.Level { return slog.LevelInfo })
	source := fixedStatus{Connected: true, Capacity: 10, Running: 2, Held: 3, Sessions: 4, Finished: map[work.StepStatus]int{work.StepFailed: 5}}
	var url string
	err := withListener(t.Context(), "127.0.0.1:0", source, log, func(context.Context) error {
		url = "http://" + regexp.MustCompile(`"address":"([^"]+)"`).FindStringSubmatch(out.String())[1]
		get := func(path string) (int, string) {
			resp, err := http.Get(url + path)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return resp.StatusCode, string(body)
		}
		code, body := get("/healthz")
		if want := `{"status":"ok","connected":true,"draining":false}` + "\n"; code != 200 || body != want {
			t.Errorf("healthz: got %d %q, want 200 %q", code, body, want)
		}
		_, body = get("/metrics")
		for _, line := range []string{"legwork_runner_connected 1", "legwork_runner_draining 0", "legwork_runner_capacity 10", `legwork_runner_jobs{state="held"} 3`,
			`legwork_runner_jobs{state="running"} 2`, "legwork_runner_sessions_total 4", `legwork_runner_steps_finished_total{status="failed"} 5`, "go_goroutines "} {
			if !strings.Contains(body, "\n"+line) {
				t.Errorf("no line %s", line)
			}
		}
		problems, err := promlint.New(strings.NewReader(body)).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("got the problems %v, %v, want none", problems, err)
		}
		if code, _ := get("/"); code != 404 {
			t.Errorf("/ answers %d", code)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	if _, err := net.Dial("tcp", strings.TrimPrefix(url, "http://")); err == nil {
		t.Error("it listens after the Runner has ended")
	}
}

func TestListenerThatCannotBe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = withListener(t.Context(), l.Addr().String(), fixedStatus{}, slog.New(slog.DiscardHandler), func(context.Context) error {
		t.Error("the Runner was started")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("got %v", err)
	}
}

func TestListenSetting(t *testing.T) {
	for text, want := range map[string]string{"": "", ":9464": "127.0.0.1:9464", "0.0.0.0:1": "0.0.0.0:1", "9464": "!", "a:b": "!"} {
		s, err := LoadRunnerSettings(Layers{Environ: complete("Runner__Listen=" + text)})
		if (err != nil) != (want == "!") || err == nil && s.Runner.Listen != want {
			t.Errorf("%q: got %q %v", text, s.Runner.Listen, err)
		}
	}
}
