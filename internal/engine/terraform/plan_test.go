package terraform

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"legwork/internal/work"
)

func reader(secrets ...string) *planReader {
	return &planReader{redactor: newRedactor(secrets), digest: sha256.New(), limit: maxChanges}
}

// planOf makes a plan out of the JSON of its resource changes.
func planOf(changes ...string) string {
	return `{"format_version":"1.2","planned_values":{"deep":[{"x":[1,2]}]},"resource_changes":[` + strings.Join(changes, ",") +
		`],"output_changes":{"o":{"actions":["create"],"after":1},"same":{"actions":["no-op"]}},"errored":false}`
}

func resourceJSON(address, mode, change string) string {
	return fmt.Sprintf(`{"address":%q,"mode":%q,"type":"t","name":"n","change":%s}`, address, mode, change)
}

func read(t *testing.T, p *planReader, text string) []work.ResourceChange {
	t.Helper()
	if err := p.read(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	data, err := p.encoded()
	if err != nil {
		t.Fatal(err)
	}
	var changes []work.ResourceChange
	if err := json.Unmarshal(data, &changes); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return changes
}

func TestCounts(t *testing.T) {
	p := reader()
	changes := read(t, p, planOf(
		resourceJSON("create", "managed", `{"actions":["create"]}`),
		resourceJSON("update", "managed", `{"actions":["update"]}`),
		resourceJSON("delete", "managed", `{"actions":["delete"]}`),
		resourceJSON("replace", "managed", `{"actions":["delete","create"]}`),
		resourceJSON("replace2", "managed", `{"actions":["create","delete"]}`),
		resourceJSON("same", "managed", `{"actions":["no-op"]}`),
		resourceJSON("read", "data", `{"actions":["read"]}`),
		resourceJSON("import", "managed", `{"actions":["no-op"],"importing":{"id":"x"}}`),
		resourceJSON("forget", "managed", `{"actions":["forget"]}`),
		`{"address":"moved","previous_address":"before","mode":"managed","change":{"actions":["no-op"]}}`,
		`{"address":"broken","mode":"managed"}`,
	))
	if got, want := p.summary, (work.PlanSummary{Add: 3, Change: 4, Destroy: 3, Outputs: 1}); got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
	if len(changes) != 9 {
		t.Errorf("%d changes: %+v", len(changes), changes)
	}
}

func TestRedaction(t *testing.T) {
	p := reader("leaked", "99", "xy")
	changes := read(t, p, planOf(resourceJSON("a", "managed", `{"actions":["update"],
		"before":{"open":"seen","pw":"s3cret","list":["s3cret2","seen"],"text":"it leaked out","number":99,"n":990,"whole":"xy","part":"xyz"},
		"after":{"open":"seen","leaked":1,"block":[{"in":"s3cret3"}],"large":12345678901234567890},
		"after_unknown":{"id":true,"block":[{"later":true}],"gone":{},"nested":{"deep":true}},
		"before_sensitive":{"pw":true,"list":[true]},
		"after_sensitive":{"block":[{"in":true}],"id":true,"nested":{}}}`)))
	if len(changes) != 1 {
		t.Fatal(changes)
	}
	before, after := mustJSON(t, changes[0].Before), string(mustText(t, p))
	want := `{"list":["(sensitive)","seen"],"n":990,"number":"(sensitive)","open":"seen","part":"xyz","pw":"(sensitive)","text":"it (sensitive) out","whole":"(sensitive)"}`
	if before != want {
		t.Errorf("before is\n%s\nnot\n%s", before, want)
	}
	for _, s := range []string{`"(sensitive)":1`, `"block":[{"in":"(sensitive)","later":"(known after apply)"}]`, `"large":12345678901234567890`, `"id":"(sensitive)"`, `"nested":{"deep":"(known after apply)"}`} {
		if !strings.Contains(after, s) {
			t.Errorf("%s is not in %s", s, after)
		}
	}
	if strings.Contains(after, "s3cret") || strings.Contains(after, "gone") {
		t.Error(after)
	}
}

func TestSensitiveAsAWhole(t *testing.T) {
	p := reader()
	read(t, p, planOf(resourceJSON("a", "managed", `{"actions":["create"],"before":null,"after":{"x":"s3cret"},"after_sensitive":true,"before_sensitive":false}`)))
	if text := string(mustText(t, p)); strings.Contains(text, "s3cret") || !strings.Contains(text, `"after":"(sensitive)"`) {
		t.Error(text)
	}
}

// TestLargePlan drops values over the limit, keeps addresses and actions, and counts everything.
func TestLargePlan(t *testing.T) {
	for _, c := range []struct{ limit, resources, size, kept int }{
		{100_000, 50, 1_000, 50},    // all fit
		{20_000, 50, 1_000, 50},     // values are dropped
		{1_000, 1_000, 1_000, 1_00}, // even the addresses do not fit
	} {
		p := reader()
		p.limit = c.limit
		var list []string
		for i := range c.resources {
			list = append(list, resourceJSON(fmt.Sprint("r", i), "managed", `{"actions":["create"],"after":{"x":"`+strings.Repeat("y", c.size)+`"}}`))
		}
		changes := read(t, p, planOf(list...))
		if p.summary.Add != c.resources || len(changes) == 0 || len(changes) > c.kept || c.kept == c.resources && len(changes) != c.kept {
			t.Errorf("limit %d: %d of %d changes, %+v", c.limit, len(changes), c.resources, p.summary)
		}
		if len(mustText(t, p)) > c.limit+c.resources {
			t.Errorf("limit %d: %d bytes", c.limit, len(mustText(t, p)))
		}
		if hasValues := changes[0].After != nil; hasValues != (c.limit == 100_000) {
			t.Errorf("limit %d: values %v", c.limit, hasValues)
		}
		if changes[0].Address != "r0" || len(changes[0].Actions) != 1 {
			t.Errorf("%+v", changes[0])
		}
	}
}

func TestUnreadable(t *testing.T) {
	for _, text := range []string{"", "no JSON at all", `{`, `{"resource_changes":{}}`, `{"resource_changes":[1]}`, `{"format_version":"3.0"}`,
		`{"format_version":1}`, `{"resource_changes":[{"address":"a","change":`, "warning\n\n{\"output_changes\":[]}"} {
		if err := reader().read(strings.NewReader(text)); err == nil {
			t.Errorf("%q is read as a plan", text)
		}
	}
	if err := reader().read(strings.NewReader("warning\n" + strings.Repeat("w", 200_000) + "\n{\"format_version\":\"1.2\"}")); err != nil {
		t.Error(err)
	}
}

func FuzzPlan(f *testing.F) {
	f.Add(planOf(resourceJSON("a", "managed", `{"actions":["create"],"after":{"x":["s3cret"]},"after_sensitive":{"x":[true]},"after_unknown":{"y":true}}`)))
	f.Add("warning\n" + planOf())
	f.Fuzz(func(t *testing.T, text string) {
		p := reader("s3cret-value")
		p.limit = 1_000
		if p.read(strings.NewReader(text)) != nil {
			return
		}
		data, err := p.encoded()
		if err != nil || len(data) > 2_100 || !json.Valid(data) {
			t.Fatalf("%d bytes %q: %v", len(data), data, err)
		}
		if strings.Contains(string(data), "s3cret-value") {
			t.Fatalf("a secret got through: %s", data)
		}
	})
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func mustText(t *testing.T, p *planReader) []byte {
	t.Helper()
	data, err := p.encoded()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// BenchmarkPlan reads a plan of 1,000 resources.
func BenchmarkPlan(b *testing.B) {
	var list []string
	for i := range 1000 {
		list = append(list, resourceJSON(fmt.Sprint("module.a.t.r", i), "managed", `{"actions":["update"],"before":{"id":"i-0123456789","tags":{"a":"b","c":"d"}},`+
			`"after":{"id":"i-0123456789","tags":{"a":"b","c":"e"},"list":[1,2,3]},"after_sensitive":{"list":[false]},"after_unknown":{"arn":true}}`))
	}
	text := planOf(list...)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if err := reader("a secret value").read(strings.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}
