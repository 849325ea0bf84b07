package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/fault"
	"legwork/internal/work"
)

// cutter is a proxy of connections that can be broken.
type cutter struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	open     []net.Conn
	running  sync.WaitGroup
}

func newCutter(t *testing.T, target string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: l, target: strings.TrimPrefix(target, "http://")}
	c.running.Go(c.accept)
	t.Cleanup(func() {
		l.Close()
		c.cut()
		c.running.Wait()
	})
	return c
}

func (c *cutter) url() string { return "http://" + c.listener.Addr().String() }

func (c *cutter) accept() {
	for {
		from, err := c.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", c.target)
		if err != nil {
			from.Close()
			continue
		}
		c.mu.Lock()
		c.open = append(c.open, from, to)
		c.mu.Unlock()
		for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
			c.running.Go(func() {
				_, _ = io.Copy(pair[0], pair[1]) // either end may break it
				pair[0].Close()
			})
		}
	}
}

// cut breaks every connection and tells how many there were.
func (c *cutter) cut() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.open) / 2
	for _, conn := range c.open {
		conn.Close()
	}
	c.open = nil
	return n
}

// TestFollowResumesWithoutLossOrDoubling cuts the connection again and again while a Job prints.
func TestFollowResumesWithoutLossOrDoubling(t *testing.T) {
	w := apitest.Start(t)
	const n = 2000
	proxy := newCutter(t, w.URL)
	following := make(chan struct{}) // a first request that is cut is an error, and not resumed
	w.Runner("edge", func(s *apitest.StepRun) work.StepResult {
		if s.Kind == work.StepRun {
			for i := range n {
				s.Print(fmt.Sprintf("line %d", i))
				if i%400 == 399 {
					select {
					case <-following:
					case <-s.Ctx.Done():
					}
					proxy.cut()
				}
			}
		}
		return work.StepResult{}
	})
	w.Apply(apitest.Scripts)
	job, err := w.Client.Submit(context.Background(), "prod/net/a", work.Run)
	w.Must(err)
	client, err := api.NewClient(api.ClientOptions{Server: proxy.url(), Token: w.Token})
	w.Must(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), apitest.Patience)
	defer cancel()
	var got []string
	started := sync.OnceFunc(func() { close(following) })
	ended, err := client.FollowLog(ctx, job.ID, 0, func(lines []api.LogLine) error {
		started()
		for _, l := range lines {
			if l.Stream == "stdout" {
				got = append(got, l.Text)
			}
		}
		return nil
	})
	w.Must(err)
	if ended.Status != work.Succeeded {
		t.Errorf("ended %s: %+v", ended.Status, ended.Failure)
	}
	if len(got) != n {
		t.Errorf("%d lines of %d", len(got), n)
	}
	for i, line := range got {
		if line != fmt.Sprintf("line %d", i) {
			t.Fatalf("line %d is %q", i, line)
		}
	}
}

func TestLogPagesTextAndEnd(t *testing.T) {
	w := apitest.Start(t)
	w.Runner("edge", func(s *apitest.StepRun) work.StepResult {
		if s.Kind == work.StepRun {
			s.Print("plain", "\x1b[31mred\x1b[0m", "bad \xff byte")
		}
		return work.StepResult{}
	})
	w.Apply(apitest.Scripts)
	ctx := context.Background()
	job, err := w.Client.Submit(ctx, "prod/net/a", work.Run)
	w.Must(err)
	_, err = w.Client.FollowLog(ctx, job.ID, 0, func([]api.LogLine) error { return nil })
	w.Must(err)
	var all []api.LogLine
	var page api.LogPage
	for after := int64(0); !page.Complete || after < page.Last; after = all[len(all)-1].Pos {
		page, err = w.Client.Log(ctx, fmt.Sprintf("#%d", job.Number), after, 1)
		w.Must(err)
		if len(page.Lines) != 1 {
			t.Fatalf("page %+v", page)
		}
		all = append(all, page.Lines...)
	}
	if last := all[len(all)-1]; string(last.Data()) != "bad \xff byte" || last.DataBase64 == nil || last.Pos != page.Last {
		t.Errorf("last line %+v", last)
	}
	req, _ := http.NewRequest("GET", w.URL+"/api/v1/jobs/"+job.ID+"/logs", nil)
	req.Header.Set("Authorization", "Bearer "+w.Token)
	req.Header.Set("Accept", "text/plain")
	resp, err := http.DefaultClient.Do(req)
	w.Must(err)
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if string(text) != "plain\n\x1b[31mred\x1b[0m\nbad \xff byte\n" {
		t.Errorf("as text: %q", text)
	}
}

// TestFollowSeesALineAtOnce follows a Job whose Step goes on only once the line was seen.
func TestFollowSeesALineAtOnce(t *testing.T) {
	w := apitest.Start(t)
	seen := make(chan struct{})
	w.Runner("edge", func(s *apitest.StepRun) work.StepResult {
		if s.Kind == work.StepRun {
			s.Print("hello")
			select {
			case <-seen:
			case <-s.Ctx.Done():
			}
		}
		return work.StepResult{}
	})
	w.Apply(apitest.Scripts)
	ctx, cancel := context.WithTimeout(context.Background(), apitest.Patience)
	defer cancel()
	job, err := w.Client.Submit(ctx, "prod/net/a", work.Run)
	w.Must(err)
	once := sync.OnceFunc(func() { close(seen) })
	ended, err := w.Client.FollowLog(ctx, job.ID, 0, func(lines []api.LogLine) error {
		if slices.ContainsFunc(lines, func(l api.LogLine) bool { return l.Text == "hello" }) {
			once()
		}
		return nil
	})
	w.Must(err)
	if ended.Status != work.Succeeded {
		t.Errorf("%+v", ended)
	}
}

func TestEventsResume(t *testing.T) {
	w := apitest.Start(t)
	ctx, cancel := context.WithTimeout(context.Background(), apitest.Patience)
	defer cancel()
	proxy := newCutter(t, w.URL)
	client, err := api.NewClient(api.ClientOptions{Server: proxy.url(), Token: w.Token})
	w.Must(err)
	defer client.Close()
	// Every time something is seen the connection breaks, and then the next thing happens.
	enough := errors.New("enough")
	var ids []int64
	next := 0
	declare := func() {
		w.Apply(fmt.Sprintf("kind: Stack\nname: s%d\n", next))
		next++
	}
	declare()
	err = client.FollowEvents(ctx, 0, func(e api.Event) error {
		ids = append(ids, e.ID)
		if len(ids) == 5 {
			return enough
		}
		proxy.cut()
		declare()
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	for i := 1; i < len(ids); i++ {
		if ids[i] <= ids[i-1] {
			t.Errorf("ids %v", ids)
		}
	}
	if next != 5 {
		t.Errorf("%d declared when %d were seen: %v", next, len(ids), ids)
	}
}

func TestFollowingEndsWithItsClientsToken(t *testing.T) {
	w := apitest.Start(t)
	_, err := w.ClientWith("lw_wrong").FollowLog(context.Background(), "1", 0, func([]api.LogLine) error { return nil })
	if !fault.Is(err, fault.Unauthenticated) {
		t.Error(err)
	}
	none, err := api.NewClient(api.ClientOptions{Server: "http://127.0.0.1:1", Token: w.Token})
	w.Must(err)
	_, err = none.FollowLog(context.Background(), "1", 0, func([]api.LogLine) error { return nil })
	if fault.Code(err) != "server_unreachable" {
		t.Error(err)
	}
}

// TestShutdownEndsStreams has a follower while the HTTP server is shut down.
func TestShutdownEndsStreams(t *testing.T) {
	w := apitest.Start(t)
	req, _ := http.NewRequest("GET", w.URL+"/api/v1/events", nil)
	req.Header.Set("Authorization", "Bearer "+w.Token)
	resp, err := http.DefaultClient.Do(req)
	w.Must(err)
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, ":") {
		t.Fatalf("%q %v", line, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), apitest.Patience)
	defer cancel()
	if err := w.HTTP.Config.Shutdown(ctx); err != nil {
		t.Errorf("the follower held the shutdown up: %v", err)
	}
}

// TestNoSecretIsShownTwice looks for the client secret of a Runner in everything the API gives later.
func TestNoSecretIsShownTwice(t *testing.T) {
	w := apitest.Start(t)
	made, err := w.Client.CreateRunner(context.Background(), catalog.RunnerSpec{Name: "edge"})
	w.Must(err)
	w.Apply("kind: Stack\nname: prod\n---\n{kind: Namespace, stack: prod, name: n}\n---\n" +
		"{kind: Module, stack: prod, namespace: n, name: m, engine: script, script: {run: x}, inputs: [{name: password, value: hunter2hunter2, sensitive: true}]}\n")
	for _, path := range []string{"/api/v1/runners", "/api/v1/runners/edge", "/api/v1/modules", "/api/v1/modules/prod/n/m", "/api/v1/jobs", "/metrics"} {
		resp, text := do(t, w, "GET", path, w.Token, "", nil)
		if resp.StatusCode != 200 || strings.Contains(string(text), made.ClientSecret) || strings.Contains(string(text), "hunter2") {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
	}
	for _, secret := range []string{made.ClientSecret, w.Token, "hunter2"} {
		if strings.Contains(w.Log.String(), secret) {
			t.Errorf("a secret is in the log")
		}
	}
}
