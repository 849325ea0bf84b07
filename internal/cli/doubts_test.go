package cli

import (
	"fmt"
	"testing"

	"legwork/internal/api"
)

// TestDoubtsNameStepsAndNodes, the first of many.
func TestDoubtsNameStepsAndNodes(t *testing.T) {
	results := []api.NodeResult{{Node: "n3", Item: "restart"}, {Runner: "eu", Item: "build"}}
	for i := range 7 {
		results = append(results, api.NodeResult{Node: fmt.Sprint("m", i), Item: "check"})
	}
	want := "; on 1 node nobody knows whether step restart was done: n3; on 1 node nobody knows whether step build was done: eu" +
		"; on 7 nodes nobody knows whether step check was done: m0, m1, m2, m3, m4 and 2 more"
	if got := doubtText(results); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := doubtText(nil); got != "" {
		t.Errorf("no doubts: %s", got)
	}
}
