package docker_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/launcher"
	"legwork/internal/launcher/docker"
	"legwork/internal/launcher/launchertest"
)

// FuzzAnswers lets an engine answer with arbitrary bytes, through the client of the vendor.
func FuzzAnswers(f *testing.F) {
	for _, name := range []string{"DOCKER_HOST", "DOCKER_API_VERSION", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"} {
		f.Setenv(name, "")
	}
	f.Setenv("DOCKER_CONFIG", f.TempDir())
	api := &launchertest.Hostile{}
	server := httptest.NewServer(api)
	f.Cleanup(server.Close)
	b := &launchertest.Bench{Hosting: catalog.Hosting{Launcher: catalog.LaunchDocker,
		Docker: &catalog.DockerHosting{Host: strings.Replace(server.URL, "http://", "tcp://", 1)}}.Filled()}
	task := b.Task("owner-a", "cloud", "cloud-00000001")
	mine, err := json.Marshal(launcher.Tags(task))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("\nOK\x00\n" + `[{"Id":"a","State":"exited","Labels":` + string(mine) + `}]`)) // without a name
	f.Add([]byte("\x00"))
	f.Add([]byte("\nOK\x00\n[]\x00\n{}"))
	f.Add([]byte("\nOK\x00\n" + `[{"Id":"a","Names":["/x"],"Labels":null,"State":"running"}]` + "\x00\n" +
		`{"Id":"a","State":null,"Config":null}`))
	f.Add([]byte("\nOK\x00\n" + `[{"Id":"a","Names":[],"Labels":{"legwork.unit":"cloud-1","legwork.owner":"owner-a"}}]` + "\x00\n{"))
	f.Add([]byte("\nOK\x00\x08" + `{"message":"it broke\u0000\n"}`))
	f.Add([]byte("\nOK\x00\n" + `{"Images":-1,"NCPU":-1,"MemTotal":-1,"Swarm":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := docker.New(launcher.Host{Version: "1.2.3", Say: func(string) {}})
		if err != nil {
			t.Fatal(err)
		}
		api.Say(data)
		api.Check(t, l, task)
	})
}
