package node

import (
	"encoding/json"
	"testing"

	"legwork/internal/fault"
)

// FuzzFromOutput checks that an output value is refused, or gives at most MaxNodes valid nodes with different names.
func FuzzFromOutput(f *testing.F) {
	for _, seed := range []string{
		`["10.0.0.1", "web-2.example.org"]`, `{"web-10": {"address": "10.1.1.10", "tags": {"a": "b"}}}`,
		`[{"id": "i-1", "name": "web", "private_ip": "10.0.0.1", "ebs": [{"size": 1}], "port": 2222}]`,
		`"10.0.0.1"`, `null`, `[[]]`, `{"a": null, "A": 1e400}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		nodes, err := FromOutput(json.RawMessage(value))
		if err != nil {
			if !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.TooLarge) {
				t.Fatalf("%q: got %v, want an Invalid or TooLarge fault", value, err)
			}
			return
		}
		if len(nodes) > MaxNodes {
			t.Errorf("nodes: got %d, want at most %d", len(nodes), MaxNodes)
		}
		seen := map[string]bool{}
		for _, n := range nodes {
			if problems := n.Problems(); len(problems) > 0 {
				t.Errorf("%q: got node %+v with problems %v", value, n, problems)
			}
			if seen[n.Name] {
				t.Errorf("%q: got two nodes named %q", value, n.Name)
			}
			seen[n.Name] = true
		}
	})
}
