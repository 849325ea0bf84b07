package work

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// FuzzParseNodeEvent checks that what a hostile Instance sends is refused, or is within bounds and stays the same when
// it is stored.
func FuzzParseNodeEvent(f *testing.F) {
	for _, e := range []NodeEvent{
		{Node: -1, Item: 3, Status: NodeFailed, Finished: time.Unix(5, 0).UTC(),
			Failure: &Failure{Code: "exit", Message: "no", Hint: "look"}},
		{Node: 7, Item: 1, Status: NodeSucceeded, Tries: 2, Started: time.Unix(1, 5).UTC(),
			Values: map[string]string{"id": "a\nb"}, Detail: "changed 2, ok 5"},
	} {
		data, err := json.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"node":1,"item":1,"status":"failed","started":"9998-12-31T23:59:59-23:59","failure":{}}`))
	f.Add([]byte(`{"node":1e3,"NODE":2,"item":1,"status":"running","values":{"\ud800":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := ParseNodeEvent(data)
		if err != nil {
			return
		}
		if e.Node < -1 || e.Node > MaxLogIndex || e.Item < 0 || e.Item > MaxLogIndex || e.Tries < 0 {
			t.Errorf("event: got %+v, want it refused", e)
		}
		stored, err := json.Marshal(e)
		if err != nil {
			t.Fatalf("event %+v: got %v, want it to become JSON again", e, err)
		}
		if len(stored) > MaxRecordBytes {
			return
		}
		again, err := ParseNodeEvent(stored)
		if err != nil {
			t.Fatalf("stored event %s: got %v, want it read", stored, err)
		}
		once, err := json.Marshal(again)
		if err != nil || !reflect.DeepEqual(once, stored) {
			t.Errorf("stored event: got %s, %v, want %s", once, err, stored)
		}
	})
}
