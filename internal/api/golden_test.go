package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"legwork/internal/api"
	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/work"
)

var (
	anyID     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	anyTime   = regexp.MustCompile(`"20\d\d-\d\d-\d\dT[0-9:.]+Z"`)
	anySecret = regexp.MustCompile(`lws_[0-9A-Za-z]+`)
	anyReqID  = regexp.MustCompile(`"request_id": "[A-Z2-7]+"`)
)

// steady takes out of an answer what is another one each time.
func steady(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(text), "", "  "); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	b.WriteByte('\n')
	ids := map[string]string{}
	out := anyID.ReplaceAllFunc(b.Bytes(), func(id []byte) []byte {
		if ids[string(id)] == "" {
			ids[string(id)] = fmt.Sprintf("ID-%d", len(ids)+1)
		}
		return []byte(ids[string(id)])
	})
	out = anyTime.ReplaceAll(out, []byte(`"TIME"`))
	out = anySecret.ReplaceAll(out, []byte("SECRET"))
	return anyReqID.ReplaceAll(out, []byte(`"request_id": "REQUEST"`))
}

// TestAnswersAreAsTheyWere compares what programs of others rely on with committed answers.
func TestAnswersAreAsTheyWere(t *testing.T) {
	w := apitest.Start(t)
	ctx := context.Background()
	get := func(name, path string) {
		_, text := do(t, w, "GET", "/api/v1"+path, w.Token, "", nil)
		compare(t, name, steady(t, text))
	}
	post := func(name, path, body string) {
		_, text := do(t, w, "POST", "/api/v1"+path, w.Token, "application/json", strings.NewReader(body))
		compare(t, name, steady(t, text))
	}
	post("runner-created", "/runners", `{"name":"edge","is_assigned_to_all_modules":true,"labels":{"site":"home"}}`)
	r, err := w.Client.ApplyManifest(ctx, []catalog.ManifestFile{{Name: "a.yaml", Data: []byte(apitest.Scripts)}}, true)
	w.Must(err)
	text, err := json.Marshal(r)
	w.Must(err)
	compare(t, "manifest-diff", steady(t, text))
	w.Apply(apitest.Scripts)
	get("module", "/modules/prod/net/a")
	get("runners", "/runners")
	rotated, err := w.Client.RotateCredential(ctx, "edge", false)
	w.Must(err)
	w.Connect(rotated, func(s *apitest.StepRun) work.StepResult {
		if s.Kind == work.StepRun {
			s.Print("hello", "\x1b[1mbold", "\xff")
			return work.StepResult{Status: work.StepFailed, ExitCode: 7, Failure: &work.Failure{Code: "exit", Message: "it ended with status 7", Hint: "read the log"}}
		}
		return work.StepResult{}
	})
	job, err := w.Client.Submit(ctx, "prod/net/a", work.Run)
	w.Must(err)
	_, err = w.Client.FollowLog(ctx, job.ID, 0, func([]api.LogLine) error { return nil })
	w.Must(err)
	get("job-failed", "/jobs/1")
	get("logs", "/jobs/1/logs")
	get("problem-not-found", "/jobs/99")
	post("problem-invalid", "/jobs", `{"module":1,"foo":2}`)
	post("problem-conflict", "/jobs/1/cancel", `{}`)
}

func compare(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".json")
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s is another one than before: if that is wanted, run go test ./internal/api -update\ngot %s\nwant %s", path, got, want)
	}
}
