package remote

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkTrueOn200Nodes runs `true` on 200 addresses of one sshd, 50 at a time, with a connection for each, and prints how
// much faster that is than `xargs -P 50 ssh` with the same key.
func BenchmarkTrueOn200Nodes(b *testing.B) {
	s := startServer(nil, b)
	key, known := filepath.Join(s.folder, "key"), filepath.Join(s.folder, "known_hosts")
	write(b, key, string(clientKey()), 0o600)
	write(b, known, s.line(), 0o600)
	var addresses []string
	for i := range 200 {
		addresses = append(addresses, fmt.Sprintf("127.0.0.%d", i+1))
	}
	var ours, theirs time.Duration
	for b.Loop() {
		begin := time.Now()
		runEverywhere(b, s, addresses)
		ours += time.Since(begin)
		if _, err := exec.LookPath("xargs"); err != nil {
			continue
		}
		begin = time.Now()
		command := exec.Command("xargs", "-P", "50", "-I", "{}", "ssh", "-F", "none", "-i", key, "-o", "UserKnownHostsFile="+known,
			"-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes", "-p", fmt.Sprint(s.port), s.user+"@{}", "true")
		command.Stdin = strings.NewReader(strings.Join(addresses, "\n"))
		if said, err := command.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, bytes.TrimSpace(said))
		}
		theirs += time.Since(begin)
	}
	b.ReportMetric(ours.Seconds()/float64(b.N), "s/ours")
	b.ReportMetric(theirs.Seconds()/float64(b.N), "s/ssh")
	b.ReportMetric(theirs.Seconds()/ours.Seconds(), "times-faster")
}

func runEverywhere(b *testing.B, s *sshd, addresses []string) {
	p := newPool(b, s.config())
	defer p.Close()
	places := make(chan struct{}, 50)
	var group sync.WaitGroup
	for _, address := range addresses {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			target := s.target()
			target.Host = address
			if r, err := p.Run(context.Background(), target, script("true")); err != nil || r.ExitCode != 0 {
				b.Errorf("%s: %v %+v", address, err, r)
			}
		})
	}
	group.Wait()
}

// BenchmarkRun is one command over a connection that is there.
func BenchmarkRun(b *testing.B) {
	s := startServer(nil, b)
	for _, want := range []bool{false, true} {
		b.Run(fmt.Sprintf("output=%v", want), func(b *testing.B) {
			p := newPool(b, s.config())
			c := script("true")
			c.WantOutput = want
			for b.Loop() {
				if _, err := p.Run(context.Background(), s.target(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
