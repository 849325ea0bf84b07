package cli_test

import (
	"strings"
	"testing"

	"legwork/internal/api/apitest"
)

func TestUsers(t *testing.T) {
	s := shellFor(apitest.Start(t))
	s.in = "correct horse battery\n"
	if r := s.run("user", "create", "ann", "--role", "operator"); r.status != 0 || !strings.Contains(r.out, "operator") || strings.Contains(r.out+r.err, "horse") {
		t.Fatalf("%+v", r)
	}
	if r := s.run("user", "list"); r.status != 0 || !strings.Contains(r.out, "ann") {
		t.Errorf("%+v", r)
	}
	if r := s.run("user", "set-role", "ann", "viewer"); r.status != 0 {
		t.Errorf("%+v", r)
	}
	s.in = "another good password"
	if r := s.run("user", "set-password", "ann"); r.status != 0 {
		t.Errorf("without an end of the line: %+v", r)
	}
	s.in = "short\n"
	if r := s.run("user", "set-password", "ann"); r.status == 0 || !strings.Contains(r.err, "10 characters") {
		t.Errorf("short: %+v", r)
	}
	s.in = ""
	if r := s.run("user", "create", "bob"); r.status == 0 || !strings.Contains(r.err, "no password") {
		t.Errorf("none: %+v", r)
	}
	if r := s.run("user", "set-role", "bob", "viewer"); r.status == 0 || !strings.Contains(r.err, "there is no user") {
		t.Errorf("nobody: %+v", r)
	}
	if r := s.run("user", "delete", "ann", "--yes"); r.status != 0 {
		t.Errorf("%+v", r)
	}
	if r := s.run("user", "list"); strings.Contains(r.out, "ann") {
		t.Errorf("%+v", r)
	}
}
