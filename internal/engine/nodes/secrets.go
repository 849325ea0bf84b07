package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"

	"legwork/internal/fault"
)

const (
	// SecretPrefix begins the names of the environment variables that hold values of secrets.
	SecretPrefix = "LEGWORK_SECRET_"
	// ReferencePrefix begins the names of those that hold references to secrets. The executor looks these up itself.
	ReferencePrefix = "LEGWORK_REFERENCE_"
	// PolicyVariable holds the ReferencePolicy as JSON.
	PolicyVariable = "LEGWORK_POLICY"
)

// ReferencePolicy is what the operator of the host allows references to read. A nil list allows everything.
type ReferencePolicy struct {
	Schemes []string `json:"schemes"`
	Folders []string `json:"folders"`
	// Confine is the policy under which the runner starts the executor, as JSON. References cannot read hidden files.
	Confine json.RawMessage `json:"confine,omitempty"`
}

// Resolver returns the value that a reference to a secret stands for. environ is the environment that jobs see.
type Resolver func(ctx context.Context, policy ReferencePolicy, reference string, environ []string) (string, error)

// variables is the environment of an executor, split into what is for the executor and what its commands inherit.
type variables struct {
	secrets    map[string]string // values by the names of the secrets
	references map[string]string // references by the names of the secrets
	policy     ReferencePolicy
	environ    []string
}

// takeVariables splits an environment. What is for the executor alone is removed from the environment of this process.
func takeVariables(env []string) (v variables, err error) {
	v = variables{secrets: map[string]string{}, references: map[string]string{}}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		secret, isSecret := strings.CutPrefix(name, SecretPrefix)
		referenced, isReference := strings.CutPrefix(name, ReferencePrefix)
		switch {
		case isSecret:
			v.secrets[secret] = value
		case isReference:
			v.references[referenced] = value
		case name == PolicyVariable:
			err = json.Unmarshal([]byte(value), &v.policy)
		default:
			v.environ = append(v.environ, entry)
			continue
		}
		_ = os.Unsetenv(name)
	}
	if err != nil {
		err = fmt.Errorf("reading %s: %w", PolicyVariable, err)
	}
	return v, err
}

// secretStore holds the secrets of a round. A reference is looked up for the first node that begins a step which needs
// it, and once for each step: a step whose condition is false everywhere looks up nothing.
type secretStore struct {
	variables
	resolve Resolver
	log     *output

	mu    sync.Mutex
	items map[int]*itemSecrets
}

// itemSecrets are the secrets of one item.
type itemSecrets struct {
	mu     sync.Mutex
	values map[string]string // once they are known
	tried  int               // the last try for which the lookup failed
	err    error             // how it failed
}

func newSecretStore(v variables, resolve Resolver, log *output) *secretStore {
	return &secretStore{variables: v, resolve: resolve, log: log, items: map[int]*itemSecrets{}}
}

// forItem returns the secrets that an item sees in one of its tries, counted from 1. When a lookup failed, it is
// repeated only by a later try.
func (s *secretStore) forItem(ctx context.Context, index, try int, names []string) (map[string]string, error) {
	s.mu.Lock()
	item := s.items[index]
	if item == nil {
		item = &itemSecrets{}
		s.items[index] = item
	}
	s.mu.Unlock()
	item.mu.Lock()
	defer item.mu.Unlock()
	switch {
	case item.values != nil:
		return item.values, nil
	case item.err != nil && try <= item.tried:
		return nil, item.err
	}
	values, err := s.lookUp(ctx, names)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	item.values, item.err = values, err
	item.tried = try
	return values, err
}

// lookUp returns the given secrets, and those of names that are references.
func (s *secretStore) lookUp(ctx context.Context, names []string) (map[string]string, error) {
	values := maps.Clone(s.secrets)
	for _, name := range names {
		text, ok := s.references[name]
		if _, known := values[name]; !ok || known {
			continue
		}
		if s.resolve == nil {
			return nil, fault.New(fault.Unsupported, "reference_unavailable", "this runner cannot look up the secret %q", name).
				WithHint("upgrade the runner")
		}
		value, err := s.resolve(ctx, s.policy, text, s.environ)
		if err != nil {
			return nil, unresolved(name, err)
		}
		values[name] = value
		s.log.mask(value)
	}
	return values, nil
}

// unresolved names the secret in the error of a lookup.
func unresolved(name string, err error) error {
	f := fault.Of(err)
	hint := f.Hint
	if hint == "" {
		hint = "look the reference up on the runner's host, as the user of the runner"
	}
	return fault.New(f.Kind, f.Code, "the value of %.100q: %s", name, f.Message).WithHint("%s", hint)
}
