package work

import (
	"encoding/json"
	"testing"
)

// TestResourceChangeKeepsNumbers: the pages and the API show the values that a plan has.
func TestResourceChangeKeepsNumbers(t *testing.T) {
	const want = `[{"address":"a","type":"t","actions":["update"],"before":{"id":9007199254740992},` +
		`"after":{"id":9007199254740993,"size":1.50}}]`
	var changes []ResourceChange
	if err := json.Unmarshal([]byte(want), &changes); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(changes)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
