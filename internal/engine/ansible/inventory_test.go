package ansible

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/fault"
)

// sourced returns a run over the nodes web1 and web2, on this host, with an inventory of its source.
func sourced(t *testing.T, files map[string]string) Playbook {
	t.Helper()
	p := Playbook{Tool: tool(t), Dir: t.TempDir(), Work: t.TempDir(), Cache: t.TempDir(), Env: os.Environ(), Forks: 1,
		Step: catalog.AnsibleStep{Playbook: "site.yml", Inventory: "inventory/hosts"}}
	nodes := hostvars{}
	for _, name := range []string{"web1", "web2"} {
		nodes[name] = map[string]any{"ansible_host": "127.0.0.1", "ansible_connection": "local"}
	}
	text, err := json.Marshal(map[string]any{"_meta": map[string]any{"hostvars": nodes},
		"all": map[string]any{"hosts": []string{"web1", "web2"}}})
	must(t, err)
	p.Inventory = text
	for name, body := range files {
		path := filepath.Join(p.Dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(body), 0o644))
	}
	return p
}

var shop = map[string]string{
	"inventory/hosts": "outside ansible_connection=local\nweb2\nweb1\n[shop]\noutside\nweb1\n" +
		"[legwork_nodes]\noutside\n",
	"inventory/host_vars/web1.yml": "ansible_host: 192.0.2.1\nansible_port: 7\n",
	"chosen":                       "outside\nweb2\n",
	"site.yml": "- hosts: all\n  gather_facts: false\n  tasks:\n" +
		"  - debug: {msg: 'ran with {{ ansible_host }}'}\n",
}

// TestInventoryRunsOnNodesOnly runs a playbook whose inventory has a foreign host, and host_vars with another address.
func TestInventoryRunsOnNodesOnly(t *testing.T) {
	t.Parallel()
	for limit, want := range map[string][]string{"": {"web1", "web2"}, "outside,web1": {"web1"}} {
		p := sourced(t, shop)
		p.Step.Limit = limit
		var h heard
		r, err := p.Run(t.Context(), &h)
		if err != nil {
			t.Fatalf("limit %q: %v\n%s", limit, err, h.all())
		}
		var got []string
		for _, host := range r.Hosts {
			got = append(got, host.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %q: the playbook ran on %v, want %v", limit, got, want)
		}
		if text := h.all(); !strings.Contains(text, "ran with 127.0.0.1") || strings.Contains(text, "192.0.2.1") {
			t.Errorf("limit %q: got the log %q, want the address of the node", limit, text)
		}
	}
}

// TestLimitSelectsNodesOnly holds for every form that a limit has.
func TestLimitSelectsNodesOnly(t *testing.T) {
	t.Parallel()
	p := sourced(t, shop)
	nodes, err := parseHostvars(strings.NewReader(string(p.Inventory)))
	must(t, err)
	job, _, err := p.write()
	must(t, err)
	for limit, want := range map[string]string{
		"outside:web1":       "web1",
		"all:&shop":          "web1",
		"all,!web2,&shop":    "web1",
		"@chosen":            "web2",
		"@chosen,~(web|ou)1": "web1 web2",
		"shop[0:1]":          "web1",
		"outside":            "",
		"legwork_nodes":      "",
	} {
		p.Step.Limit = limit
		var h heard
		got, err := p.selectNodes(t.Context(), job, nodes, &h)
		slices.Sort(got)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("limit %q selects %v (%v), want %q\n%s", limit, got, err, want, h.all())
		}
	}
	p.Step.Limit = "outside"
	if limit, err := p.mergeInventories(t.Context(), job, &heard{}); fault.Of(err).Code != "limit_without_nodes" {
		t.Errorf("a limit without nodes: got %q and %v, want limit_without_nodes", limit, err)
	}
}

// TestSourceChangesNoAddress refuses variables that outrank those of the inventory of the job.
func TestSourceChangesNoAddress(t *testing.T) {
	t.Parallel()
	p := sourced(t, shop)
	path := filepath.Join(p.Dir, "host_vars", "web2.yml")
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte("ansible_host: 192.0.2.2\n"), 0o644))
	_, err := p.Run(t.Context(), &heard{})
	if fault.Of(err).Code != "node_address_changed" || !strings.Contains(err.Error(), "ansible_host of the node web2") {
		t.Errorf("host_vars next to the playbook: got %v, want node_address_changed", err)
	}
	for key, c := range map[string]struct{ node, merged map[string]any }{
		"": {map[string]any{"ansible_host": "h", "ansible_port": 22},
			map[string]any{"ansible_host": "h", "ansible_port": "22"}},
		"ansible_ssh_host": {map[string]any{"ansible_host": "h"},
			map[string]any{"ansible_host": "h", "ansible_ssh_host": "i"}},
		"ansible_port": {map[string]any{"ansible_port": 22}, map[string]any{"ansible_port": 23}},
		"ansible_connection": {map[string]any{"ansible_host": "h"},
			map[string]any{"ansible_host": "h", "ansible_connection": "local"}},
	} {
		if got := changedAddress(c.node, c.merged); got != key {
			t.Errorf("%v with %v: got %q, want %q", c.node, c.merged, got, key)
		}
	}
}
