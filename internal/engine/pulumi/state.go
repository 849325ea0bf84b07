package pulumi

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	"legwork/internal/engine"
	"legwork/internal/work"
)

// exportedState is what is read of an exported state.
type exportedState struct {
	Deployment struct {
		Resources []resource `json:"resources"`
	} `json:"deployment"`
}

// resource is one resource of an exported state.
type resource struct {
	URN      string `json:"urn"`
	Type     string `json:"type"`
	External bool   `json:"external"` // it is only read
}

// managed reports whether a destroy removes the resource.
func (r resource) managed() bool { return r.Type != rootType && !r.External }

func (e *Engine) exportState(ctx context.Context, w engine.Workspace) (state exportedState, err error) {
	err = e.capture(ctx, w, maxState, func(r io.Reader) error { return json.NewDecoder(r).Decode(&state) }, "stack", "export")
	return state, err
}

// readState describes where the stack of the module keeps its state. It returns nil when the program does not say.
func (e *Engine) readState(ctx context.Context, w engine.Workspace) (*work.StateReport, error) {
	url := backendURL(ctx, w)
	scheme, _, ok := strings.Cut(url, "://")
	switch {
	case !ok:
		return nil, nil
	case scheme != "file":
		return &work.StateReport{Backend: scheme}, nil
	}
	state, err := e.exportState(ctx, w)
	if err != nil {
		return nil, err
	}
	report := &work.StateReport{Backend: scheme, Local: true, Exists: len(state.Deployment.Resources) > 0}
	for _, r := range state.Deployment.Resources {
		if r.managed() {
			report.Resources++
		}
	}
	return report, nil
}

// backendURL returns the URL of the backend that the environment names, or else of the one that the host is logged
// in to. It is empty when the program does not know.
func backendURL(ctx context.Context, w engine.Workspace) string {
	if url, ok := engine.Lookup(w.Env, "PULUMI_BACKEND_URL"); ok && url != "" {
		return url
	}
	var account struct {
		URL string `json:"url"`
	}
	read := func(r io.Reader) error { return json.NewDecoder(r).Decode(&account) }
	if err := run(ctx, w, maxVersion, read, "whoami", "--json"); err != nil {
		return ""
	}
	return account.URL
}
