// Package reference gets the values that settings refer to instead of holding them:
//
//	${file:/run/secrets/legwork}              a file, without one line end at its end
//	${env:NAME}                               an environment variable
//	${command:/usr/bin/pass show legwork}     what a program prints, likewise; words are parted by blanks, there is no shell
//	${vault:secret/data/legwork#secret}       a key of a secret in a KV version 2 of OpenBao or Vault, by its path in the API
//	${aws:legwork/runner#secret}              a secret of AWS Secrets Manager by name or ARN; with #, a key of its JSON
//	${azure:https://v.vault.azure.net/secrets/name}           a secret of Azure Key Vault; a version may follow
//	${google:projects/p/secrets/name/versions/latest#secret}  a version of a secret of Google Secret Manager
//
// A reference is the whole of a value. A value that begins with $${ is the text that begins with ${.
//
// Each service is reached through its own client library, which finds address and credentials as it documents: BAO_ADDR and
// BAO_TOKEN (or VAULT_...), the default credentials of AWS, Azure and Google. Errors name the reference and never a value.
package reference

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
	"unicode/utf8"

	"legwork/internal/fault"
)

// The limits of one value.
const (
	maxBytes = 1 << 20
	timeout  = 30 * time.Second
)

// Is tells whether the text of a setting is a reference, or an escaped text that only looks like one.
func Is(text string) bool {
	return strings.HasPrefix(text, "$${") || (strings.HasPrefix(text, "${") && strings.HasSuffix(text, "}"))
}

// Get gets what a reference stands for. A failure is a fault with code reference_unavailable, or reference_invalid
// when nothing can ever stand behind it. A text that is no reference is itself.
func Get(ctx context.Context, text string) (string, error) { return get(ctx, text, services) }

// service gets what stands behind the part of a reference after its scheme.
type service func(ctx context.Context, rest string) (string, error)

// services are the kinds of references by their scheme.
var services = map[string]service{
	"file": file, "env": variable, "command": command, "vault": vault, "aws": aws, "azure": azure, "google": google,
}

// errForm is why a reference can never be had.
type errForm string

func (e errForm) Error() string { return string(e) }

func get(ctx context.Context, text string, services map[string]service) (string, error) {
	if escaped, ok := strings.CutPrefix(text, "$${"); ok {
		return "${" + escaped, nil
	}
	if !Is(text) {
		return text, nil
	}
	scheme, rest, ok := strings.Cut(text[2:len(text)-1], ":")
	find := services[scheme]
	if !ok || find == nil || rest == "" {
		return "", invalid(text, "it is none of ${file:}, ${env:}, ${command:}, ${vault:}, ${aws:}, ${azure:} and ${google:} with something behind the colon")
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	value, err := find(ctx, rest)
	var form errForm
	var refused *fault.Fault
	switch {
	case errors.As(err, &form):
		return "", invalid(text, form.Error())
	case errors.As(err, &refused):
		return "", refused
	case err != nil:
		return "", fault.New(fault.Unavailable, "reference_unavailable", "the reference %s cannot be had: %s", text, brief(err))
	case len(value) > maxBytes || !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return "", invalid(text, "what it stands for is too large or no text")
	}
	return value, nil
}

func invalid(text, why string) error {
	return fault.New(fault.Invalid, "reference_invalid", "the reference %.200s cannot be used: %s", text, why)
}

// brief is the first line of an error, and not much of it. Clients put the answers of services into theirs.
func brief(err error) string {
	first, _, _ := strings.Cut(err.Error(), "\n")
	if len(first) > 300 {
		first = first[:300] + "..."
	}
	return strings.ToValidUTF8(first, "?")
}

func file(_ context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+2))
	return oneLine(data), err
}

// oneLine takes away the line end that editors and programs put behind a value.
func oneLine(data []byte) string {
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
}

func variable(_ context.Context, name string) (string, error) {
	value, ok := os.LookupEnv(name)
	if !ok {
		return "", errors.New("there is no such environment variable")
	}
	return value, nil
}

func command(ctx context.Context, line string) (string, error) {
	return commandWith(ctx, nil, line, nil)
}

// commandWith runs a program, behind prefix, with an environment; nil is that of this process.
func commandWith(ctx context.Context, prefix []string, line string, environ []string) (string, error) {
	argv := strings.Fields(line)
	if len(argv) == 0 {
		return "", errForm("it names no program")
	}
	argv = append(append([]string{}, prefix...), argv...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay, cmd.Env = time.Second, environ
	out := &bounded{}
	cmd.Stdout = out
	if err := cmd.Run(); err != nil { // what it printed may hold the value
		return "", err
	}
	return oneLine(out.Bytes()), nil
}

// bounded keeps a little more than the largest value, so that what is too large is seen as such.
type bounded struct{ bytes.Buffer }

// Write keeps what there is room for and takes all.
func (b *bounded) Write(p []byte) (int, error) {
	if room := maxBytes + 2 - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// withKey gets a value, or one key of the JSON object that it is: rest is "name" or "name#key".
func withKey(rest string, get func(name string) (string, error)) (string, error) {
	name, key, keyed := strings.Cut(rest, "#")
	value, err := get(name)
	if err != nil || !keyed {
		return value, err
	}
	var object map[string]any
	if json.Unmarshal([]byte(value), &object) != nil {
		return "", errors.New("it is no JSON object, and a key of one is asked for")
	}
	return keyOf(object, key)
}

func keyOf(object map[string]any, key string) (string, error) {
	value, ok := object[key].(string)
	if !ok {
		return "", errors.New("it has no such key, or that is no text")
	}
	return value, nil
}
