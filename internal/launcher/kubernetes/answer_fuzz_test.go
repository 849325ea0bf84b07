package kubernetes_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"legwork/internal/catalog"
	"legwork/internal/launcher"
	"legwork/internal/launcher/launchertest"
)

// FuzzAnswers lets a cluster answer with arbitrary bytes, through the client of the vendor.
func FuzzAnswers(f *testing.F) {
	api := &launchertest.Hostile{}
	server := httptest.NewTLSServer(api)
	f.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	file := filepath.Join(f.TempDir(), "config")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "one",
"clusters": [{"name": "here", "cluster": {"server": %q, "certificate-authority-data": %q}}],
"users": [{"name": "me", "user": {"token": "opaque"}}],
"contexts": [{"name": "one", "context": {"cluster": "here", "user": "me"}}]}`,
		server.URL, base64.StdEncoding.EncodeToString(authority))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
	b := &launchertest.Bench{Hosting: catalog.Hosting{Launcher: catalog.LaunchKubernetes,
		Kubernetes: &catalog.KubernetesHosting{Kubeconfig: file}}.Filled()}
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	mine, err := json.Marshal(launcher.Tags(task))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("\n" + `{"kind":"JobList","items":[{"metadata":{"labels":` + string(mine) + `}}]}`)) // without a name
	f.Add([]byte("\x00"))
	f.Add([]byte("\n" + `{"kind":"JobList","apiVersion":"batch/v1","metadata":{"continue":"more"},"items":[]}`)) // without an end
	f.Add([]byte("\n" + `{"kind":"JobList","apiVersion":"batch/v1","items":[{"metadata":{"name":"a","labels":null}}]}` + "\x00\n" +
		`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"ownerReferences":[{}]},"status":{"containerStatuses":[{}]}}]}`))
	f.Add([]byte("\n" + `{"kind":"Status","apiVersion":"v1","status":"Failure","code":200}`))
	f.Add([]byte("\x08" + `{"kind":"Status","apiVersion":"v1","message":"it broke","details":{"retryAfterSeconds":0}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		api.Say(data)
		api.Check(t, open(func(string) {}, time.Millisecond), task)
	})
}
