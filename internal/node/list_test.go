package node

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"legwork/internal/fault"
)

func asJSON(t testing.TB, nodes []Node) string {
	t.Helper()
	data, err := json.Marshal(nodes)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestParseList(t *testing.T) {
	const web1 = `{"name":"web-1","address":"10.0.0.1","port":2222,"user":"deploy","os":"linux","arch":"amd64","tags":["web","prod"],"attributes":{"rack":"r1","size":"1.10"}}`
	for name, c := range map[string]struct{ text, want string }{
		"a list":               {"- name: web-1\n  address: 10.0.0.1\n  port: 2222\n  user: deploy\n  os: linux\n  arch: amd64\n  tags: [web, prod]\n  rack: r1\n  size: 1.10\n", "[" + web1 + "]"},
		"by name, other words": {"web-1:\n  hostname: 10.0.0.1:2222\n  username: deploy\n  osFamily: unix\n  osName: Linux\n  osArch: x86_64\n  tags: web, prod, web\n  rack: r1\n  size: 1.10\n", "[" + web1 + "]"},
		"attributes apart":     {`{"nodes": [{"nodename": "web-1", "address": "10.0.0.1", "port": "2222", "user": "deploy", "os": "Ubuntu", "arch": "x86_64", "tags": "web,prod", "attributes": {"rack": "r1", "size": 1.10}}]}`, "[" + web1 + "]"},
		"addresses":            {"- 10.0.0.1\n- host:2222\n", `[{"name":"10.0.0.1"},{"name":"host","port":2222}]`},
		"names and addresses":  {"web-1: 10.0.0.1\nweb-2:\nweb-3: {}\n", `[{"name":"web-1","address":"10.0.0.1"},{"name":"web-2"},{"name":"web-3"}]`},
		"none":                 {"[]", "null"},
		"none by name":         {"{}", "null"},
		"nodes by name":        {"nodes:\n  a: {address: x}\n", `[{"name":"a","address":"x"}]`},
		"a Node named nodes":   {"nodes: {address: x}\n", `[{"name":"nodes","address":"x"}]`},
		"local":                {"- {name: here, connection: local}", `[{"name":"here","connection":"local"}]`},
		"another system":       {"- {name: a, osName: Windows Server 2022, osFamily: windows}", `[{"name":"a","os":"windows","attributes":{"osName":"Windows Server 2022"}}]`},
		"a merge and an alias": {"a: &a {user: x, port: 7, tags: &t [one]}\nb:\n  <<: *a\n  user: y\nc: {<<: [{user: z}, *a], tags: *t}\n", `[{"name":"a","port":7,"user":"x","tags":["one"]},{"name":"b","port":7,"user":"y","tags":["one"]},{"name":"c","port":7,"user":"z","tags":["one"]}]`},
		"JSON with a tab":      {"[\t{\"name\": \"a\", \"emoji\": \"\\ud83d\\ude00\"}]", `[{"name":"a","attributes":{"emoji":"😀"}}]`},
		"no secrets":           {"- {name: a, db_password: x, API-Token: y, bypass: z, attributes: {secretKey: s}}", `[{"name":"a","attributes":{"bypass":"z"}}]`},
		"nothing said":         {"- {name: a, rack: null, tags: , b: true}", `[{"name":"a","attributes":{"b":"true"}}]`},
		"a byte order mark":    {"\ufeff- a", `[{"name":"a"}]`},
		"IPv6":                 {`- {name: a, address: "fe80::1%eth0"}`, `[{"name":"a","address":"fe80::1%eth0"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			nodes, err := ParseList([]byte(c.text))
			if err != nil || asJSON(t, nodes) != c.want {
				t.Fatalf("%s\nwant %s\n%v", asJSON(t, nodes), c.want, err)
			}
		})
	}
}

func problemsOf(err error) string {
	var list []string
	for _, p := range fault.Of(err).Details {
		list = append(list, p.String())
	}
	return strings.Join(list, "\n")
}

func TestParseListNamesEveryProblem(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":        {" \n", "line 1: is empty: write [] where there are no Nodes"},
		"comments":     {"# none\n", "line 1: is empty: write [] where there are no Nodes"},
		"null":         {"null\n", "line 1: is nothing, not a list of Nodes and not an object of Nodes by name"},
		"text":         {"hello", "line 1: is a text, not a list"},
		"no UTF-8":     {"- a\n- \xff\n", "line 2: is not UTF-8 text"},
		"no YAML":      {"- a\n- {b: [\n", "is not YAML or JSON"},
		"half of JSON": {"[{\"name\": \"a\"},\n{\"name\": ", "is not YAML or JSON"},
		"two":          {"- a\n---\n- b\n", "line 2: is a second document"},
		"one Node":     {"name: a\naddress: b\n", "line 1: is one Node by itself: put it into a list"},
		"many": {"- name: web-1\n  port: x\n  tags: {a: b}\n  nics: [a]\n- address: 1.2.3.4\n- name: -x\n  address: -oProxyCommand=x\n  user: -l\n- name: web-1\n- [a]\n- null\n",
			`line 2: [0].port: "x" is no port: 1 to 65535
line 3: [0].tags: is an object, but has to be a list or a text such as "web, prod"
line 4: [0].nics: is a list, but has to be a text
line 5: [1].name: is missing: a name has 1 to 253 letters, digits, ".", "-", "_" and ":", and begins with no "-" or "."
line 6: [2].name: "-x" cannot be a name: a name has 1 to 253 letters, digits, ".", "-", "_" and ":", and begins with no "-" or "."
line 7: [2].address: "-oProxyCommand=x" begins with '-', which no address does
line 8: [2].user: "-l" begins with "-"
line 9: [3]: has the name "web-1", as the Node of line 1
line 10: [4]: is a list, not a Node
line 11: [5]: is nothing, not a Node`},
		"JSON": {"[\n {\"name\": \"a\",\n  \"port\":\n   70000,\n  \"os\": [1],\n  \"tags\": [\"x\", {}]\n }\n]", `line 5: [0].os: is a list, but has to be a text
line 6: [0].tags[1]: is an object, but has to be a text
line 3: [0].port: 70000 is no port: 1 to 65535`},
		"by name":            {"web-1:\n  name: web-2\n", `line 2: web-1.name: is "web-2", but the Node stands under the name "web-1"`},
		"twice":              {"web-1: {}\nweb-1: {}\n", `line 2: web-1: has the name "web-1", as the Node of line 1`},
		"a key twice":        {"- name: a\n  hostname: b\n  address: c\n  rack: r\n  attributes:\n    rack: s\n", "line 3: [0].address: says again what hostname says\nline 6: [0].attributes.rack: is there twice"},
		"and the reverse":    {"- name: a\n  attributes: {rack: s}\n  rack: r\n", "line 3: [0].rack: is there twice"},
		"attribute":          {"- name: a\n  my rack: b\n  attributes: {x: [1]}\n", "line 3: [0].attributes.x: is a list, but has to be a text\nline 2: [0].attributes.my rack: the name has characters"},
		"attributes":         {"- name: a\n  attributes: x\n", "line 2: [0].attributes: is a text, but has to be an object"},
		"a tag":              {"- name: a\n  tags:\n  - \"a\\u0007\"\n", `line 2: [0].tags[0]: "a\a" has characters that cannot be printed`},
		"a bad alias":        {"- *x\n", "unknown anchor"},
		"an alias to itself": {"a: &a\n  b: *a\n", "is nested more than 32 deep"},
		"a bad merge":        {"- {<<: 1, name: a}\n", "line 1: merges a text: << takes an object"},
		"a strange key":      {"- {[a]: b}\n", "line 1: has a key that is no text"},
		"binary":             {"- {name: a, b: !!binary aGk=}\n", "line 1: has a binary value"},
		"deep":               {strings.Repeat("[", 40) + strings.Repeat("]", 40), "nested more than 32 deep"},
		"an alias bomb":      {aliasBomb(), "has more than 500000 values"},
		"many commas":        {"- {" + strings.Repeat("a,", 1_100_000) + "}\n", "too many values for YAML"},
		"much JSON":          {"[[" + strings.Repeat("1,", 600_000) + "1]]", "has more than 500000 values"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseList([]byte(c.text))
			if fault.Code(err) != "node_list" || !fault.Is(err, fault.Invalid) || !strings.Contains(problemsOf(err), c.want) {
				t.Fatalf("got\n%s\nwant\n%s\n%v", problemsOf(err), c.want, err)
			}
		})
	}
}

func aliasBomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 {x: y}\n")
	for i := 1; i < 20; i++ {
		fmt.Fprintf(&b, "a%d: &a%d {p: *a%d, q: *a%d, r: *a%d}\n", i, i, i-1, i-1, i-1)
	}
	return b.String()
}

func TestParseListLimits(t *testing.T) {
	text := strings.Repeat("- a\n", MaxNodes+1)
	if _, err := ParseList([]byte(text)); !fault.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "10001 Nodes") {
		t.Error(err)
	}
	if _, err := ParseList(make([]byte, MaxList+1)); !fault.Is(err, fault.TooLarge) {
		t.Error(err)
	}
	_, err := ParseList([]byte(strings.Repeat("- -a\n", 200)))
	if got := fault.Of(err); len(got.Details) != maxProblems || !strings.Contains(got.Message, fmt.Sprintf("at least %d more problems", maxProblems-maxNamedProblems)) {
		t.Errorf("%d problems told: %v", len(got.Details), err)
	}
	var b strings.Builder
	for i := range MaxNodes {
		fmt.Fprintf(&b, "- name: web-%d\n  address: 10.%d.%d.%d\n  user: deploy\n  port: 22\n  os: linux\n  arch: amd64\n  tags: [web, prod, x]\n", i, i>>16, i>>8&255, i&255)
		for j := range 12 {
			fmt.Fprintf(&b, "  attribute%d: value-of-it\n", j)
		}
	}
	if nodes, err := ParseList([]byte(b.String())); err != nil || len(nodes) != MaxNodes {
		t.Errorf("%d of %d Nodes: %v", len(nodes), MaxNodes, err)
	}
}

func TestFromOutput(t *testing.T) {
	for text, want := range map[string]string{
		`["10.0.0.1", "10.0.0.2"]`: `[{"name":"10.0.0.1"},{"name":"10.0.0.2"}]`,
		`{"web-1": "10.0.0.1"}`:    `[{"name":"web-1","address":"10.0.0.1"}]`,
		`{"web-1": {"address": "10.0.0.1", "ebs": [{"id": 1}], "admin_password": "x", "tags": ["web"], "my key": 3}}`: `[{"name":"web-1","address":"10.0.0.1","tags":["web"],"attributes":{"my_key":"3"}}]`,
		`[{"name": "web-1", "attributes": {"zone": "a", "more": {}}}]`:                                                `[{"name":"web-1","attributes":{"zone":"a"}}]`,
		`[]`: `null`,
	} {
		if nodes, err := FromOutput(json.RawMessage(text)); err != nil || asJSON(t, nodes) != want {
			t.Errorf("%s: %s: %v", text, asJSON(t, nodes), err)
		}
	}
	for text, want := range map[string]string{
		`"10.0.0.1"`:                       "is a text, not a list of Nodes",
		`{"name": "a", "address": "b"}`:    "one Node by itself",
		`[{"address": "a", "tags": {}}]`:   "has to be a list",
		`[["a"]]`:                          "is a list, not a Node",
		`{"a": {"address": ["10.0.0.1"]}}`: "a.address: is a list, but has to be a text",
	} {
		if _, err := FromOutput(json.RawMessage(text)); err == nil || !strings.Contains(problemsOf(err), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestProblems(t *testing.T) {
	long := func(n int) string { return strings.Repeat("a", n) }
	many := map[string]string{}
	for i := range MaxAttributes + 1 {
		many[fmt.Sprint(i)] = ""
	}
	for _, c := range []struct {
		node  Node
		field string
		want  string
	}{
		{Node{Name: "fe80::1"}, "", ""},
		{Node{Name: "a_b-1.c", Address: "x.example.com", User: `DOMAIN\me`, Port: 65535, OS: "linux", Tags: []string{"a b", "ä,"}, Attributes: map[string]string{"k8s.io/zone": "a\nb\tc {{ x }}"}, Connection: SSH}, "", ""},
		{Node{Name: "a:b", Connection: Local}, "", ""},
		{Node{}, "name", "is missing"},
		{Node{Name: long(254)}, "name", "has 254 bytes"},
		{Node{Name: "a b"}, "name", "cannot be a name"},
		{Node{Name: "ä"}, "name", "cannot be a name"},
		{Node{Name: "../x"}, "name", "cannot be a name"},
		{Node{Name: ".."}, "name", "cannot be a name"},
		{Node{Name: "-x", Address: "a"}, "name", "cannot be a name"},
		{Node{Name: "a:b"}, "address", "is missing: the name"},
		{Node{Name: "a", Address: "-oProxyCommand=x"}, "address", "begins with"},
		{Node{Name: "a", Address: "b:22"}, "address", "write that as port"},
		{Node{Name: "a", Address: "[::1]"}, "address", "brackets"},
		{Node{Name: "a", Address: "u@b"}, "address", "write that as user"},
		{Node{Name: "a", Address: "{{ ip }}"}, "address", "template"},
		{Node{Name: "a", Address: "b c"}, "address", "no host name"},
		{Node{Name: "a", Address: "b\x00"}, "address", "no host name"},
		{Node{Name: "a", Address: "a:b:zz"}, "address", "no IPv6"},
		{Node{Name: "a", Address: "b%c"}, "address", "only IPv6"},
		{Node{Name: "a", Address: long(254)}, "address", "254 bytes"},
		{Node{Name: "a", User: "-l"}, "user", `begins with "-"`},
		{Node{Name: "a", User: "a b"}, "user", "blank"},
		{Node{Name: "a", User: "a\x1b"}, "user", "cannot be printed"},
		{Node{Name: "a", User: long(129)}, "user", "129 bytes"},
		{Node{Name: "a", Port: -1}, "port", "no port"},
		{Node{Name: "a", Port: 65536}, "port", "no port"},
		{Node{Name: "a", OS: "a b"}, "os", "cannot be one"},
		{Node{Name: "a", Arch: long(65)}, "arch", "cannot be one"},
		{Node{Name: "a", Tags: []string{""}}, "tags[0]", "is empty"},
		{Node{Name: "a", Tags: []string{"a", "a"}}, "tags[1]", "twice"},
		{Node{Name: "a", Tags: []string{" a"}}, "tags[0]", "blank"},
		{Node{Name: "a", Tags: []string{"a\n"}}, "tags[0]", "printed"},
		{Node{Name: "a", Tags: []string{"a\xff"}}, "tags[0]", "printed"},
		{Node{Name: "a", Tags: []string{long(129)}}, "tags[0]", "129 bytes"},
		{Node{Name: "a", Tags: make([]string, 101)}, "tags", "are 101"},
		{Node{Name: "a", Attributes: map[string]string{"": "x"}}, "attributes.", "is missing"},
		{Node{Name: "a", Attributes: map[string]string{"a b": "x"}}, "attributes.a b", "characters other"},
		{Node{Name: "a", Attributes: map[string]string{long(129): "x"}}, "", "129 bytes"},
		{Node{Name: "a", Attributes: map[string]string{"a": long(4097)}}, "attributes.a", "4097 bytes"},
		{Node{Name: "a", Attributes: map[string]string{"a": "\x1b[2J"}}, "attributes.a", "control"},
		{Node{Name: "a", Attributes: many}, "attributes", "are 201"},
		{Node{Name: "a", Attributes: map[string]string{"1": long(4096), "2": long(4096), "3": long(4096), "4": long(4096), "5": long(4096), "6": long(4096), "7": long(4096), "8": long(4096)}}, "attributes", "together"},
		{Node{Name: "a", Connection: "winrm"}, "connection", "ssh or local"},
	} {
		problems := c.node.Problems()
		switch {
		case c.want == "":
			if len(problems) > 0 {
				t.Errorf("%.80v: %v", c.node, problems)
			}
		case len(problems) != 1 || c.field != "" && problems[0].Field != c.field || !strings.Contains(problems[0].Message, c.want):
			t.Errorf("%.80v: %v, want %s: %s", c.node, problems, c.field, c.want)
		}
	}
}

func FuzzParseList(f *testing.F) {
	for _, seed := range []string{"- a", "a: {hostname: b:1, tags: x}", `[{"name":"a","port":1}]`, "nodes: []", "a: &a {b: *a}", "- <<: {a: b}\n  name: c", "{}", "---\n...\n", `{"a":{"attributes":{"x":1e3}}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		nodes, err := ParseList(data)
		if err != nil {
			if !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.TooLarge) {
				t.Fatalf("%q: %v", data, err)
			}
			return
		}
		seen := map[string]bool{}
		for _, n := range nodes {
			if p := n.Problems(); len(p) > 0 || seen[n.Name] {
				t.Fatalf("%q: %v %v", data, n, p)
			}
			seen[n.Name] = true
		}
		again, err := ParseList([]byte(asJSON(t, nodes)))
		if len(nodes) > 0 && (err != nil || !reflect.DeepEqual(again, nodes)) {
			t.Fatalf("%q: %v became %v: %v", data, nodes, again, err)
		}
	})
}
