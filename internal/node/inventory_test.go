package node

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"legwork/internal/fault"
)

const printedInventory = `{
 "_meta": {"hostvars": {
  "db-1": {"ansible_connection": "local", "ansible_ssh_host": "1.2.3.4", "ansible_ssh_port": "23", "ansible_ssh_user": "old"},
  "web-1": {"ansible_host": "10.0.0.1", "ansible_user": "deploy", "ansible_port": 2222, "ansible_become_password": "s", "ansible_become_user": "root", "ansible_ssh_pass": "s",
    "ansible_ssh_common_args": "-o ProxyCommand=x", "ansible_python_interpreter": "/usr/bin/python3", "ansible_system": "Linux", "ansible_architecture": "x86_64",
    "db_password": "x", "DB_PASSWD": "x", "my_secret": "x", "api-token": "x", "vault_pass": "x", "n": 3, "f": 1.50, "b": true, "none": null, "l": [1], "o": {"a": 1}, "t": {"__ansible_unsafe": "{{ x }}"}, "rack": "r1"},
  "win-1": {"ansible_connection": "winrm"}
 }},
 "all": {"children": ["ungrouped", "prod", "db"]}, "ungrouped": {"hosts": ["lone"]},
 "prod": {"children": ["web"]}, "web": {"hosts": ["web-1", "web-2"], "children": ["prod"]}, "db": {"hosts": ["db-1"]}
}`

func TestParseInventory(t *testing.T) {
	nodes, err := ParseInventory([]byte(printedInventory))
	want := []Node{
		{Name: "db-1", Address: "1.2.3.4", Port: 23, User: "old", Tags: []string{"db"}, Connection: Local},
		{Name: "lone"},
		{Name: "web-1", Address: "10.0.0.1", Port: 2222, User: "deploy", OS: "linux", Arch: "amd64", Tags: []string{"prod", "web"},
			Attributes: map[string]string{"n": "3", "f": "1.50", "b": "true", "t": "{{ x }}", "rack": "r1", "ansible_python_interpreter": "/usr/bin/python3"}},
		{Name: "web-2", Tags: []string{"prod", "web"}},
		{Name: "win-1", Attributes: map[string]string{"connection": "winrm"}},
	}
	if err != nil || asJSON(t, nodes) != asJSON(t, want) {
		t.Fatalf("%s\nwant\n%s\n%v", asJSON(t, nodes), asJSON(t, want), err)
	}
}

func TestParseInventoryRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                             "is not what ansible-inventory --list prints",
		`null`:                         "it is no object",
		`[1]`:                          "which it cannot be",
		`{"web": {"hosts": {"a": 1}}}`: `group "web": "hosts" is a object`,
		`{"_meta": []}`:                "_meta",
		`{"_meta": {"hostvars": {"a": {"ansible_host": "{{ ip }}"}}}}`: `a.address: "{{ ip }}" is a template`,
		`{"_meta": {"hostvars": {"a": {"ansible_port": "{{ p }}"}}}}`:  `a.ansible_port: "{{ p }}" is no port`,
		`{"web": {"hosts": ["-x"]}}`:                                   `-x.name: "-x" cannot be a name`,
	} {
		if _, err := ParseInventory([]byte(text)); fault.Code(err) != "node_list" || !strings.Contains(problemsOf(err), want) {
			t.Errorf("%s: %s", text, problemsOf(err))
		}
	}
	if _, err := ParseInventory(make([]byte, MaxList+1)); !fault.Is(err, fault.TooLarge) {
		t.Error(err)
	}
	var hosts []string
	for i := range MaxNodes + 1 {
		hosts = append(hosts, fmt.Sprintf("n%d", i))
	}
	text, err := json.Marshal(map[string]any{"all": map[string]any{"hosts": hosts}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseInventory(text); !fault.Is(err, fault.TooLarge) {
		t.Error(err)
	}
}

func TestParseInventoryOfManyGroups(t *testing.T) {
	groups := map[string]any{}
	for i := range 3000 {
		groups[fmt.Sprintf("g%d", i)] = map[string]any{"hosts": []string{"a"}, "children": []string{fmt.Sprintf("g%d", i+1)}}
	}
	text, err := json.Marshal(groups)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseInventory(text); err == nil || !strings.Contains(err.Error(), "at most 100 are allowed") {
		t.Fatal(err)
	}
}

// inventoryNodes have everything that must not reach Ansible as more than a text.
var inventoryNodes = []Node{
	{Name: "web-1", Address: "10.0.0.1", Port: 2222, User: "deploy", Tags: []string{"web", "eu-west.1", "all", "9lives"},
		Attributes: map[string]string{"rack": "r1", "k8s.io/zone": "a", "evil": "{{ lookup('pipe', 'touch /tmp/owned') }}", "ansible_ssh_common_args": "-oProxyCommand=x", "ansible_host": "6.6.6.6", "hosts": "h", "when": "w", interpreterVariable: "/usr/bin/python3"}},
	{Name: "db-1", Connection: Local, Tags: []string{"db"}, Attributes: map[string]string{interpreterVariable: "/x", "a.b": "1", "a_b": "2", "a-b": "3"}},
	{Name: "lone", Attributes: map[string]string{interpreterVariable: "{{ x }}"}},
}

func TestInventory(t *testing.T) {
	groups := map[string]Filter{"front": mustParse(t, "tags: web"), "none": mustParse(t, "nobody"), "db": mustParse(t, "web-1")}
	data, err := Inventory(inventoryNodes, groups)
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(`{
	"_meta": {"hostvars": {
		"web-1": {"ansible_host": "10.0.0.1", "ansible_port": 2222, "ansible_user": "deploy", "ansible_python_interpreter": "/usr/bin/python3", "rack": "r1", "k8s_io_zone": "a",
			"evil": {"__ansible_unsafe": "{{ lookup('pipe', 'touch /tmp/owned') }}"}, "node_ansible_ssh_common_args": "-oProxyCommand=x", "node_ansible_host": "6.6.6.6", "node_hosts": "h", "node_when": "w", "node_ansible_python_interpreter": "/usr/bin/python3"},
		"db-1": {"ansible_host": "db-1", "ansible_connection": "local", "a_b": "2", "node_ansible_python_interpreter": "/x"},
		"lone": {"ansible_host": "lone", "node_ansible_python_interpreter": {"__ansible_unsafe": "{{ x }}"}}}},
	"all": {"hosts": [], "children": ["_9lives", "db", "eu_west_1", "front", "none", "tag_all", "web", "ungrouped"]},
	"_9lives": {"hosts": ["web-1"]}, "db": {"hosts": ["web-1"]}, "eu_west_1": {"hosts": ["web-1"]}, "front": {"hosts": ["web-1"]}, "none": {"hosts": []}, "tag_all": {"hosts": ["web-1"]}, "web": {"hosts": ["web-1"]},
	"ungrouped": {"hosts": ["db-1", "lone"]}}`), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s", data)
	}
}

func TestInventoryRefuses(t *testing.T) {
	for want, c := range map[string]struct {
		nodes  []Node
		groups map[string]Filter
	}{
		"would both become":           {[]Node{{Name: "a", Tags: []string{"x-y"}}, {Name: "b", Tags: []string{"x_y"}}}, nil},
		"is there twice":              {[]Node{{Name: "a"}, {Name: "a"}}, nil},
		`the Node "-a" cannot be`:     {[]Node{{Name: "-a"}}, nil},
		`group "a-b" cannot be one`:   {nil, map[string]Filter{"a-b": {}}},
		`group "all" cannot be one`:   {nil, map[string]Filter{"all": {}}},
		`group "_meta" cannot be one`: {nil, map[string]Filter{"_meta": {}}},
		`group "" cannot be one`:      {nil, map[string]Filter{"": {}}},
	} {
		if _, err := Inventory(c.nodes, c.groups); fault.Code(err) != "node_inventory" || !strings.Contains(err.Error(), want) || fault.Of(err).Hint == "" {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := Inventory([]Node{{Name: "a", Tags: []string{"x-y"}}, {Name: "b", Tags: []string{"x_y"}}}, map[string]Filter{"x_y": mustParse(t, "a")}); err != nil {
		t.Errorf("a declared group does not take the place of tags: %v", err)
	}
}

func TestInventoryOfAnyNodesIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := Node{Name: rapid.StringMatching(`[a-z][a-z0-9.-]{0,10}`).Draw(t, "name"), Port: rapid.IntRange(0, MaxPort).Draw(t, "port"), Address: rapid.StringMatching(`[a-z0-9]{1,9}`).Draw(t, "address")}
		n.Tags = rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z_]{1,5}`).Filter(func(s string) bool { return s != "all" }), 0, 4, rapid.ID).Draw(t, "tags")
		n.User = rapid.StringMatching(`[a-z{}%]{0,6}`).Draw(t, "user")
		text := rapid.StringMatching(`[ -~äß\n]{0,20}`).Draw(t, "text")
		n.Attributes = map[string]string{"x": text}
		data, err := Inventory([]Node{n}, nil)
		if err != nil {
			t.Fatal(err)
		}
		nodes, err := ParseInventory(data)
		if err != nil || len(nodes) != 1 {
			t.Fatalf("%s: %v", data, err)
		}
		got := nodes[0]
		if got.Name != n.Name || got.Port != n.Port || got.User != n.User || got.Address != n.Address || len(got.Tags) != len(n.Tags) || got.Attributes["x"] != text {
			t.Fatalf("%+v became %+v", n, got)
		}
	})
}

// TestInventoryBeforeAnsible gives an inventory to the real program: what it makes of it comes back, and a text that is a
// template is never evaluated.
func TestInventoryBeforeAnsible(t *testing.T) {
	for _, program := range []string{"ansible-inventory", "ansible"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	dir := t.TempDir()
	owned := filepath.Join(dir, "owned")
	evil := "{{ lookup('pipe', 'touch " + owned + "') }} {% if true %}x{% endif %}"
	nodes := []Node{
		{Name: "here", Connection: Local, Tags: []string{"web", "eu-west"}, Attributes: map[string]string{"evil": evil, "rack": "r1"}, User: "{{evil}}"},
		{Name: "there", Address: "10.0.0.1", Port: 2222, User: "deploy", Tags: []string{"web"}},
	}
	data, err := Inventory(nodes, map[string]Filter{"front": mustParse(t, "tags: web !here"), "none": mustParse(t, "nobody")})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"inventory.json": string(data), "inventory": "#!/bin/sh\ncat '" + dir + "/inventory.json'\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	run := func(program string, args ...string) []byte {
		t.Helper()
		c := exec.CommandContext(t.Context(), program, append([]string{"-i", filepath.Join(dir, "inventory")}, args...)...)
		c.Env = append(os.Environ(), "HOME="+dir, "ANSIBLE_LOCAL_TEMP="+dir, "ANSIBLE_INVENTORY_UNPARSED_FAILED=1", "ANSIBLE_LOCALHOST_WARNING=0", "ANSIBLE_NOCOLOR=1", "LC_ALL=C.UTF-8")
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", program, args, err, out)
		}
		return out
	}
	back, err := ParseInventory(run("ansible-inventory", "--list"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Node{
		{Name: "here", Address: "here", User: "{{evil}}", Tags: []string{"eu_west", "web"}, Attributes: nodes[0].Attributes, Connection: Local},
		{Name: "there", Address: "10.0.0.1", Port: 2222, User: "deploy", Tags: []string{"front", "web"}},
	}
	if asJSON(t, back) != asJSON(t, want) {
		t.Errorf("%s\nwant\n%s", asJSON(t, back), asJSON(t, want))
	}
	out := string(run("ansible", "here", "-m", "debug", "-a", "msg={{evil}}"))
	if _, err := os.Stat(owned); err == nil || !strings.Contains(out, "lookup('pipe'") {
		t.Errorf("an attribute was taken for a template (%v): %s", err, out)
	}
}

func FuzzParseInventory(f *testing.F) {
	for _, seed := range []string{printedInventory, `{"a":{"hosts":["b"],"children":["a"]}}`, `{"_meta":{"hostvars":{"a":{"x":{"__ansible_unsafe":"y"}}}}}`, `{"_meta":null,"a":null}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		nodes, err := ParseInventory(data)
		if err != nil {
			if !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.TooLarge) {
				t.Fatalf("%q: %v", data, err)
			}
			return
		}
		for _, n := range nodes {
			if p := n.Problems(); len(p) > 0 {
				t.Fatalf("%q: %v %v", data, n, p)
			}
		}
		if _, err := Inventory(nodes, nil); err != nil && fault.Code(err) != "node_inventory" {
			t.Fatalf("%q: %v", data, err)
		}
	})
}
