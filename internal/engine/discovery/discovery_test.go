package discovery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/node"
)

// discovered runs Main over a source and gives the Nodes it left by name, or its failure, and what it said.
func discovered(t *testing.T, source catalog.NodeSourceSpec, dir string) (nodes map[string]node.Node, failure, said string) {
	t.Helper()
	work := t.TempDir()
	text, err := json.Marshal(task{Source: source, Dir: dir, Script: filepath.Join(work, "s.sh"), Result: filepath.Join(work, "nodes.json"), Inventory: "ansible-inventory"})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(work, "discover.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	status := Main(t.Context(), file, &out)
	var o outcome
	if left, err := os.ReadFile(filepath.Join(work, "nodes.json")); err != nil || json.Unmarshal(left, &o) != nil {
		t.Fatalf("nothing was left: %v, %s", err, out.String())
	}
	if (o.Failure == nil) != (status == 0) {
		t.Fatalf("status %d with failure %+v", status, o.Failure)
	}
	nodes = map[string]node.Node{}
	for _, n := range o.Nodes {
		nodes[n.Name] = n
	}
	if o.Failure != nil {
		failure = o.Failure.Code + ": " + o.Failure.Message
	}
	return nodes, failure, out.String()
}

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFile(t *testing.T) {
	dir := folder(t, map[string]string{"nodes.yaml": "- name: web-1\n  address: 10.0.0.1\n  tags: [web]\n  attributes: {region: us}\n- name: db-1\n", "bad.yaml": "- address: 10.0.0.1\n", "torn.yaml": "- [\n"})
	source := catalog.NodeSourceSpec{Type: catalog.FromFile, File: "nodes.yaml", Tags: []string{"prod"}, Attributes: map[string]string{"region": "eu"}, User: "deploy"}
	nodes, failure, _ := discovered(t, source, dir)
	if n := nodes["web-1"]; failure != "" || len(nodes) != 2 || n.Address != "10.0.0.1" || !slices.Equal(n.Tags, []string{"web"}) || n.Attributes["region"] != "us" || n.User != "" {
		t.Fatalf("what the source gives to all is the Server's to add: %+v, %s", nodes, failure)
	}
	for path, code := range map[string]string{"none.yaml": "node_file_missing", "bad.yaml": "", "torn.yaml": ""} {
		source.File = path
		if _, failure, _ := discovered(t, source, dir); failure == "" || !strings.HasPrefix(failure, code) {
			t.Errorf("%s: %q", path, failure)
		}
	}
}

func TestScript(t *testing.T) {
	dir := folder(t, map[string]string{"list": "#!/bin/sh\necho looking >&2\necho '[{\"name\": \"a\"}, {\"name\": \"b\"}]'\n"})
	run := func(s catalog.ScriptSpec) (map[string]node.Node, string, string) {
		return discovered(t, catalog.NodeSourceSpec{Type: catalog.FromScript, Script: &s}, dir)
	}
	if nodes, failure, said := run(catalog.ScriptSpec{File: "list"}); len(nodes) != 2 || failure != "" || !strings.Contains(said, "looking") {
		t.Errorf("file: %+v, %s, %s", nodes, failure, said)
	}
	if nodes, failure, _ := run(catalog.ScriptSpec{Run: "for n in 1 2 3; do echo \"- name: web-$n\"; done"}); len(nodes) != 3 || failure != "" {
		t.Errorf("text: %+v, %s", nodes, failure)
	}
	if _, failure, said := run(catalog.ScriptSpec{Run: "echo broken >&2; exit 3"}); !strings.HasPrefix(failure, "node_source_failed") || !strings.Contains(said, "broken") {
		t.Errorf("broken: %s, %s", failure, said)
	}
	if _, failure, _ := run(catalog.ScriptSpec{Run: "head -c 9000000 /dev/zero"}); !strings.HasPrefix(failure, "node_list_large") {
		t.Errorf("too much: %s", failure)
	}
	if _, failure, _ := run(catalog.ScriptSpec{File: "../list"}); !strings.HasPrefix(failure, "script_path") {
		t.Errorf("outside: %s", failure)
	}
}

func TestAnsible(t *testing.T) {
	dir := folder(t, map[string]string{
		"hosts.ini":         "[web]\nweb-1 ansible_host=10.0.0.1 ansible_port=2222 rack=r1\nweb-2\n[db]\ndb-1 ansible_password=hush\n",
		"dynamic":           "#!/bin/sh\necho '{\"web\": {\"hosts\": [\"dyn-1\"]}, \"_meta\": {\"hostvars\": {\"dyn-1\": {\"ansible_user\": \"deploy\"}}}}'\n",
		"made.advanced.yml": "plugin: ansible.builtin.advanced_host_list\n",
		"broken":            "#!/bin/sh\nexit 1\n",
	})
	ask := func(path string) (map[string]node.Node, string) {
		nodes, failure, _ := discovered(t, catalog.NodeSourceSpec{Type: catalog.FromAnsible, File: path}, dir)
		return nodes, failure
	}
	nodes, failure := ask("hosts.ini")
	if n := nodes["web-1"]; failure != "" || len(nodes) != 3 || n.Address != "10.0.0.1" || n.Port != 2222 || n.Attributes["rack"] != "r1" || !slices.Contains(n.Tags, "web") {
		t.Fatalf("static: %+v, %s", nodes, failure)
	}
	if text := fmt.Sprint(nodes["db-1"]); strings.Contains(text, "hush") {
		t.Errorf("a password travels: %s", text)
	}
	if nodes, failure := ask("dynamic"); nodes["dyn-1"].User != "deploy" || failure != "" {
		t.Errorf("dynamic: %+v, %s", nodes, failure)
	}
	if _, failure := ask("broken"); !strings.HasPrefix(failure, "node_source_failed") {
		t.Errorf("broken: %s", failure)
	}
	if _, failure := ask("none"); !strings.HasPrefix(failure, "inventory_missing") {
		t.Errorf("missing: %s", failure)
	}
}

// An inventory plugin makes hosts of what another file says.
func TestAnsiblePlugin(t *testing.T) {
	dir := folder(t, map[string]string{"01-hosts": "web-[1:3]\n", "02-groups.constructed.yml": "plugin: ansible.builtin.constructed\nstrict: true\ngroups:\n  first: inventory_hostname == 'web-1'\n"})
	t.Setenv("ANSIBLE_INVENTORY_ENABLED", "ini,ansible.builtin.constructed")
	nodes, failure, said := discovered(t, catalog.NodeSourceSpec{Type: catalog.FromAnsible, File: dir}, dir)
	if failure != "" || len(nodes) != 3 || !slices.Contains(nodes["web-1"].Tags, "first") || slices.Contains(nodes["web-2"].Tags, "first") {
		t.Fatalf("%+v, %s, %s", nodes, failure, said)
	}
}

// A server that speaks as a cluster does gives nodes in two pages.
func TestKubernetes(t *testing.T) {
	item := func(name, ip string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"node-role.kubernetes.io/worker":"","zone":"a"}},"status":{"addresses":[{"type":"Hostname","address":%q},{"type":"InternalIP","address":%q}],"nodeInfo":{"operatingSystem":"linux","architecture":"arm64"}}}`, name, name, ip)
	}
	refuse := false
	cluster := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch q := r.URL.Query(); {
		case r.URL.Path != "/api/v1/nodes" || r.Header.Get("Authorization") != "Bearer word":
			http.Error(w, "no", http.StatusNotFound)
		case refuse:
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"nodes is forbidden: User \"runner\" cannot list resource \"nodes\""}`)
		case q.Get("labelSelector") != "zone=a":
			http.Error(w, "no", http.StatusBadRequest)
		case q.Get("continue") == "":
			fmt.Fprintf(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{"continue":"more"},"items":[%s]}`, item("k-1", "10.0.0.1"))
		default:
			fmt.Fprintf(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[%s]}`, item("k-2", "10.0.0.2"))
		}
	}))
	defer cluster.Close()
	config := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]\nusers: [{name: u, user: {token: word}}]\n", cluster.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", config)
	source := catalog.NodeSourceSpec{Type: catalog.FromKubernetes, Selector: "zone=a"}
	nodes, failure, _ := discovered(t, source, t.TempDir())
	if n := nodes["k-2"]; failure != "" || len(nodes) != 2 || n.Address != "10.0.0.2" || n.Arch != "arm64" || n.Attributes["zone"] != "a" || !slices.Contains(n.Tags, "worker") {
		t.Fatalf("%+v, %s", nodes, failure)
	}
	refuse = true
	if _, failure, _ := discovered(t, source, t.TempDir()); !strings.HasPrefix(failure, "kubernetes_refused") || !strings.Contains(failure, "cannot list") {
		t.Errorf("refused: %s", failure)
	}
	source.Context = "other"
	if _, failure, _ := discovered(t, source, t.TempDir()); !strings.HasPrefix(failure, "kubernetes_config") {
		t.Errorf("another context: %s", failure)
	}
}

// A server that speaks as EC2 does gives instances in two pages.
func TestEC2(t *testing.T) {
	instance := func(id, name, ip string) string {
		return fmt.Sprintf("<item><instanceId>%s</instanceId><instanceType>t3.small</instanceType><architecture>x86_64</architecture><privateIpAddress>%s</privateIpAddress><vpcId>vpc-1</vpcId><placement><availabilityZone>eu-west-1a</availabilityZone></placement><tagSet><item><key>Name</key><value>%s</value></item></tagSet></item>", id, ip, name)
	}
	tags := "<item><key>aws:autoscaling:groupName</key><value>g</value></item><item><key>Cost Center</key><value>7</value></item><item><key>long</key><value>" + strings.Repeat("x", 5000) + "</value></item>"
	refuse := false
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/xml")
		_ = r.ParseForm()
		switch {
		case refuse:
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, "<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>You are not authorized to perform this operation.</Message></Error></Errors></Response>")
		case r.Form.Get("Action") != "DescribeInstances" || r.Form.Get("Filter.1.Name") != "tag:role" || r.Form.Get("Filter.1.Value.2") != "db" || r.Form.Get("Filter.2.Name") != "instance-state-name":
			http.Error(w, r.Form.Encode(), http.StatusBadRequest)
		case r.Form.Get("NextToken") == "":
			fmt.Fprintf(w, "<DescribeInstancesResponse><reservationSet><item><instancesSet>%s</instancesSet></item></reservationSet><nextToken>more</nextToken></DescribeInstancesResponse>", instance("i-1", "web", "10.0.0.1"))
		default:
			fmt.Fprintf(w, "<DescribeInstancesResponse><reservationSet><item><instancesSet>%s%s</instancesSet></item></reservationSet></DescribeInstancesResponse>", instance("i-2", "web", "10.0.0.2"), instance("i-3", "", "10.0.0.3")+strings.Replace(instance("i-4", "Web server 1", "10.0.0.4"), "<tagSet>", "<tagSet>"+tags, 1))
		}
	}))
	defer cloud.Close()
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": cloud.URL, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "", "AWS_MAX_ATTEMPTS": "1", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"} {
		t.Setenv(name, value)
	}
	source := catalog.NodeSourceSpec{Type: catalog.FromEC2, Region: "eu-west-1", Selector: "tag:role=web|db"}
	nodes, failure, said := discovered(t, source, t.TempDir())
	if n := nodes["web-i-2"]; failure != "" || len(nodes) != 4 || n.Address != "10.0.0.2" || n.Arch != "amd64" || n.Attributes["zone"] != "eu-west-1a" || nodes["i-3"].Address != "10.0.0.3" {
		t.Fatalf("%+v, %s, %s", nodes, failure, said)
	}
	if n := nodes["i-4"]; n.Address != "10.0.0.4" || n.Attributes["tag.aws_autoscaling_groupName"] != "g" || n.Attributes["tag.Cost_Center"] != "7" || n.Attributes["tag.Name"] != "Web server 1" || n.Attributes["tag.long"] != "" {
		t.Errorf("an instance with tags of any text: %+v", n)
	}
	refuse = true
	if _, failure, _ := discovered(t, source, t.TempDir()); !strings.HasPrefix(failure, "aws_refused") || !strings.Contains(failure, "UnauthorizedOperation") {
		t.Errorf("refused: %s", failure)
	}
	source.Selector = "nonsense"
	if _, failure, _ := discovered(t, source, t.TempDir()); !strings.HasPrefix(failure, "ec2_selector") {
		t.Errorf("selector: %s", failure)
	}
	source.Selector, source.Region = "", ""
	if _, failure, _ := discovered(t, source, t.TempDir()); !strings.HasPrefix(failure, "aws_region") {
		t.Errorf("no region: %s", failure)
	}
}
