package work

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestLogID(t *testing.T) {
	if id := (&Job{ID: "a"}).LogID(); id != "a" {
		t.Errorf("of a Job: %s", id)
	}
	if id := (&Job{ID: "a", ParentID: "p", Part: 2}).LogID(); id != "p" {
		t.Errorf("of a Part: %s", id)
	}
}

func TestParseNodeEvent(t *testing.T) {
	want := NodeEvent{Node: -1, Item: 3, Status: NodeFailed, Failure: &Failure{Code: "exit", Message: "no"}, Finished: time.Unix(5, 0).UTC()}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseNodeEvent(data)
	if err != nil || got.Node != -1 || got.Item != 3 || got.Status != NodeFailed || got.Failure.Message != "no" || !got.Finished.Equal(want.Finished) {
		t.Errorf("got %+v, %v", got, err)
	}
	for name, text := range map[string]string{
		"no JSON":         `node 1 is fine`,
		"two values":      `{"node":1,"item":1,"status":"failed"} {}`,
		"no status":       `{"node":1,"item":1}`,
		"another status":  `{"node":1,"item":1,"status":"great"}`,
		"a Node below":    `{"node":-2,"item":1,"status":"failed"}`,
		"an Item below":   `{"node":1,"item":-1,"status":"failed"}`,
		"a Node above":    `{"node":1000001,"item":1,"status":"failed"}`,
		"a large one":     `{"node":1,"item":1,"status":"failed","detail":"` + strings.Repeat("x", MaxRecordBytes) + `"}`,
		"a mad clock":     `{"node":1,"item":1,"status":"failed","started":"9999-12-31T23:59:59Z"}`,
		"of another kind": `[1]`,
	} {
		if e, err := ParseNodeEvent([]byte(text)); err == nil {
			t.Errorf("%s: %+v", name, e)
		}
	}
}
