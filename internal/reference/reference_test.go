package reference

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"legwork/internal/fault"
)

const value = "s3cr3t-value-of-a-reference"

// want gets a reference and compares.
func want(t *testing.T, text, expected string) {
	t.Helper()
	if got, err := Get(t.Context(), text); err != nil || got != expected {
		t.Errorf("%s: got %q %v", text, got, err)
	}
}

// fails gets a reference that cannot be had. The error must name it, and no value.
func fails(t *testing.T, text, code string) {
	t.Helper()
	got, err := Get(t.Context(), text)
	if got != "" || fault.Code(err) != code || !strings.Contains(err.Error(), text) || strings.Contains(fmt.Sprintf("%+v", err), value) {
		t.Errorf("%s: got %q %v, want %s", text, got, err, code)
	}
}

func TestPlainTexts(t *testing.T) {
	for text, expected := range map[string]string{"": "", "plain": "plain", "$x": "$x", "${open": "${open", "a ${file:x}": "a ${file:x}", "$${file:x}": "${file:x}", "$${": "${"} {
		want(t, text, expected)
	}
	for _, text := range []string{"${file:}", "${file}", "${}", "${nothing:x}", "${vault:a/data/b}", "${vault:a/b#c}", "${azure:http://v/secrets/x}", "${azure:https://v/keys/x}", "${google:secrets/x}", "${command:  }"} {
		fails(t, text, "reference_invalid")
	}
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "${file:" + path + "}"
	}
	want(t, put("plain", value), value)
	want(t, put("line", value+"\n"), value)
	want(t, put("windows", value+"\r\n"), value)
	want(t, put("two", value+"\n\n"), value+"\n")
	want(t, put("empty", ""), "")
	fails(t, put("large", strings.Repeat(value, maxBytes/len(value)+2)), "reference_invalid")
	fails(t, put("binary", value+"\xff"), "reference_invalid")
	fails(t, put("nul", value+"\x00"), "reference_invalid")
	fails(t, "${file:"+dir+"/nothing}", "reference_unavailable")
	fails(t, "${file:"+dir+"}", "reference_unavailable")
}

func TestVariable(t *testing.T) {
	t.Setenv("SOME_VALUE", value)
	want(t, "${env:SOME_VALUE}", value)
	fails(t, "${env:NO_SUCH_VALUE_HERE}", "reference_unavailable")
}

func TestCommand(t *testing.T) {
	script := filepath.Join(t.TempDir(), "get")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n[ \"$1\" = fail ] && { echo "+value+"; echo "+value+" >&2; exit 3; }\necho \"$1\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	want(t, "${command:"+script+" "+value+"}", value)
	want(t, "${command:"+script+"  $(echo)}", "$(echo)")
	fails(t, "${command:"+script+" fail}", "reference_unavailable")
	fails(t, "${command:/no/such/program}", "reference_unavailable")
	fails(t, "${command:head -c 3000000 /dev/zero}", "reference_invalid")
}

func TestTimeout(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Get(ctx, "${command:sleep 60}"); fault.Code(err) != "reference_unavailable" {
		t.Errorf("got %v", err)
	}
}

func TestErrorsAreBrief(t *testing.T) {
	long := func(context.Context, string) (string, error) {
		return "", errors.New(strings.Repeat("x", 1000) + "\nthe body: " + value)
	}
	_, err := get(t.Context(), "${long:x}", map[string]service{"long": long})
	if err == nil || len(err.Error()) > 500 || strings.Contains(err.Error(), value) {
		t.Errorf("got %v", err)
	}
}

func FuzzGet(f *testing.F) {
	for _, seed := range []string{"${file:x}", "$${", "${:}", "${vault:a/data/b#c}", "${#}"} {
		f.Add(seed)
	}
	echo := func(_ context.Context, rest string) (string, error) { return rest, nil }
	f.Fuzz(func(t *testing.T, text string) {
		got, err := get(t.Context(), text, map[string]service{"echo": echo})
		if err == nil && !Is(text) && got != text {
			t.Errorf("%q became %q", text, got)
		}
	})
}
