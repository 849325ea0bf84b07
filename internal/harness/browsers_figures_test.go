//go:build bench

package harness_test

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"legwork/internal/harness"
)

const (
	browsers  = 100
	pacedRun  = "for i in $(seq 100); do seq -f 'a line of a log as wide as they are, with a number at its end: %07.0f' $((i*1000-999)) $((i*1000)); sleep 0.05; done"
	floodRun  = "seq -f 'a line of a log as wide as they are, with a number at its end: %07.0f' 100000"
	pacedRuns = 3
)

var streamOf = regexp.MustCompile(`sse-connect="([^"]+)"`)

// hundredBrowsers has a hundred pages follow the log of one Job that prints 100,000 lines: what it costs the Server and the Job.
func hundredBrowsers(t *testing.T) {
	s := harness.StartServer(t)
	s.StartRunner("edge-1", capacity(2))
	a := newAPI(s)
	begin := filepath.Join(t.TempDir(), "begin") // the Job waits for this file, so that all follow from its first line on
	waiting := "until [ -e " + begin + " ]; do sleep 0.02; done; "
	s.Apply(scripts(1, "paced", waiting+pacedRun))
	s.Apply(scripts(1, "flood", waiting+floodRun))
	runWith(t, s, a, "b/flood/m0", begin, 0) // what is first is slower
	for _, run := range []struct {
		name  string
		limit float64
	}{{"paced", 1.1}, {"flood", 1.1}} {
		var alone, watched []float64
		most := 0.0
		for range pacedRuns {
			seconds, _ := runWith(t, s, a, "b/"+run.name+"/m0", begin, 0)
			alone = append(alone, seconds)
			seconds, resident := runWith(t, s, a, "b/"+run.name+"/m0", begin, browsers)
			watched, most = append(watched, seconds), max(most, resident)
		}
		ratio := middle(watched) / middle(alone)
		note := fmt.Sprintf("%.2f s alone, %.2f s followed", middle(alone), middle(watched))
		put(figure{what: "100 browsers, 100,000 lines, " + run.name + ": Job slowed", value: ratio, limit: run.limit, unit: "x", note: note})
		put(figure{what: "100 browsers, 100,000 lines, " + run.name + ": Server", value: most, limit: 300, unit: "MiB"})
	}
}

// runWith runs a Job that some browsers follow from its begin, and gives how long it took and the most memory of the Server.
func runWith(t *testing.T, s *harness.Server, a *api, module, begin string, followers int64) (seconds, most float64) {
	t.Helper()
	id := a.submit(t, module)
	number := a.job(t, id).Number
	client := loggedIn(t, s)
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	var connected, events, bytes atomic.Int64
	var whole atomic.Int64
	for range followers {
		all.Go(func() {
			if followPage(ctx, client, fmt.Sprintf("%s/jobs/%d", s.URL, number), &connected, &events, &bytes) {
				whole.Add(1)
			}
		})
	}
	harness.Eventually(t, "all browsers follow", func() bool { return connected.Load() == followers })
	measured := make(chan float64)
	over := make(chan struct{})
	go func() {
		top := 0.0
		for {
			top = max(top, resident(t, s.PID()))
			select {
			case <-over:
				measured <- top
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	begun := time.Now()
	if err := os.WriteFile(begin, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	seconds = a.ended(t, id).FinishedAt.Sub(begun).Seconds()
	if err := os.Remove(begin); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "all browsers have seen the end", func() bool { return whole.Load() == followers })
	close(over)
	most = <-measured
	stop()
	all.Wait()
	t.Logf("%s, %d browsers: %.2f s, %.0f MiB, %d events, %.1f MB", module, followers, seconds, most, events.Load(), float64(bytes.Load())/1e6)
	return seconds, most
}

func loggedIn(t *testing.T, s *harness.Server) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: browsers}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Jar: jar, Transport: transport}
	answer, err := client.PostForm(s.URL+"/login", url.Values{"token": {s.Token()}})
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	_ = answer.Body.Close()
	return client
}

// followPage opens a page and its stream, until the log is over, and tells whether it came to that.
func followPage(ctx context.Context, client *http.Client, page string, connected, events, bytes *atomic.Int64) bool {
	answer, err := client.Get(page)
	if err != nil {
		return false
	}
	text, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	found := streamOf.FindSubmatch(text)
	if found == nil {
		return false
	}
	at, err := url.Parse(page)
	if err != nil {
		return false
	}
	stream, err := at.Parse(html.UnescapeString(string(found[1])))
	if err != nil {
		return false
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, stream.String(), nil)
	if err != nil {
		return false
	}
	if answer, err = client.Do(r); err != nil {
		return false
	}
	defer answer.Body.Close()
	connected.Add(1)
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		bytes.Add(int64(len(lines.Bytes())))
		if strings.HasPrefix(lines.Text(), "event: log") {
			events.Add(1)
		}
		if strings.HasPrefix(lines.Text(), `data: {"last":100000,"over":true`) {
			return true
		}
	}
	return false
}
