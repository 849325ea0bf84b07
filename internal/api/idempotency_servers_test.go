package api_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"legwork/internal/api/apitest"
	"legwork/internal/store/storetest"
)

// TestIdempotencyKeyAtTwoServers: servers that share a database run a request once, although it reaches both at once.
func TestIdempotencyKeyAtTwoServers(t *testing.T) {
	database, dir := storetest.Postgres(t), t.TempDir()
	servers := []*apitest.World{apitest.StartOn(t, database, dir), apitest.StartOn(t, database, dir)}
	for round := range 8 {
		body := fmt.Sprintf(`{"name":"bot-%d","role":"viewer"}`, round)
		send := func(w *apitest.World) (int, string) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+"/api/v1/principals", strings.NewReader(body))
			w.Must(err)
			req.Header.Set("Authorization", "Bearer "+servers[0].Token)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Idempotency-Key", fmt.Sprintf("key-%d", round))
			resp, err := http.DefaultClient.Do(req)
			w.Must(err)
			return resp.StatusCode, textOf(t, resp)
		}
		var both sync.WaitGroup
		var mu sync.Mutex
		statuses := map[int]int{}
		for i := range 4 {
			both.Go(func() {
				status, _ := send(servers[i%2])
				mu.Lock()
				defer mu.Unlock()
				statuses[status]++
			})
		}
		both.Wait()
		if statuses[http.StatusCreated] == 0 || statuses[http.StatusCreated]+statuses[http.StatusConflict] != 4 {
			t.Errorf("round %d: got the statuses %v, want 201, and 409 while it runs", round, statuses)
		}
		status, first := send(servers[0])
		again, second := send(servers[1])
		if status != http.StatusCreated || again != http.StatusCreated || first != second {
			t.Errorf("round %d: got %d %s and %d %s, want one answer at both servers", round, status, first, again, second)
		}
	}
}

func textOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
