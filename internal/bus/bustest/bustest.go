// Package bustest runs NATS servers for tests.
package bustest

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const startTimeout = 30 * time.Second

// Server is a running NATS server.
type Server struct {
	t       testing.TB
	options *server.Options
	running *server.Server
}

// Start starts a NATS server with a configuration file and stops it when the test ends.
func Start(t testing.TB, configFile string) *Server {
	t.Helper()
	options, err := server.ProcessConfigFile(configFile)
	if err != nil {
		t.Fatal(err)
	}
	options.NoSigs, options.NoLog = true, true
	s := &Server{t: t, options: options}
	s.Restart()
	t.Cleanup(s.Stop)
	return s
}

// Restart starts the server after Stop.
func (s *Server) Restart() {
	s.t.Helper()
	running, err := server.NewServer(s.options.Clone())
	if err != nil {
		s.t.Fatal(err)
	}
	running.Start()
	if !running.ReadyForConnections(startTimeout) {
		s.t.Fatal("the NATS server did not start")
	}
	s.running = running
}

// Stop stops the server and waits for its end.
func (s *Server) Stop() {
	s.running.Shutdown()
	s.running.WaitForShutdown()
}

// Connections returns the number of clients that are connected with TLS as a user.
func (s *Server) Connections(user string) (n int) {
	conns, err := s.running.Connz(&server.ConnzOptions{Username: true})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range conns.Conns {
		if c.AuthorizedUser == user && c.TLSVersion != "" {
			n++
		}
	}
	return n
}
