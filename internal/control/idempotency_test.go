package control

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"legwork/internal/fault"
	"legwork/internal/store"
)

// keyedWorld is a server whose requests with idempotency keys can be made older.
type keyedWorld struct {
	*server
	database string
}

func newKeyedWorld(t *testing.T) *keyedWorld {
	url := database(t)
	return &keyedWorld{server: newWorldOn(t, url).serve(Limits{}), database: url}
}

// age moves the start of all requests into the past.
func (w *keyedWorld) age(by time.Duration) {
	w.t.Helper()
	w.exec("UPDATE idempotency_keys SET created_at = created_at - $1", by.Microseconds())
}

// exec runs a statement next to the store.
func (w *keyedWorld) exec(query string, args ...any) {
	w.t.Helper()
	driver, source := "sqlite", "file:"+w.database+"?_pragma=busy_timeout(10000)"
	if strings.HasPrefix(w.database, "postgres") {
		driver, source = "pgx", w.database
	}
	db, err := sql.Open(driver, source)
	w.must(err)
	defer db.Close()
	_, err = db.Exec(query, args...)
	w.must(err)
}

// begin sends a request with the key "k".
func (w *keyedWorld) begin(fingerprint string) (*KeyedRequest, *KeyedAnswer, error) {
	return w.c.BeginKeyed(w.t.Context(), Sender{OrganizationID: w.org, ID: "x"}, "k", []byte(fingerprint))
}

// change makes the change of a request.
func (w *keyedWorld) change(r *KeyedRequest) error {
	ctx, end := r.Context(context.Background())
	defer end()
	return w.store.Update(ctx, func(tx *store.Tx) error {
		return tx.AppendEvent(store.Event{OrganizationID: w.org, Kind: "made", Subject: "s", Data: []byte("{}")})
	})
}

func wantCode(t *testing.T, what string, err error, want string) {
	t.Helper()
	if got := fault.Code(err); got != want {
		t.Errorf("%s: got the error %q (%v), want %q", what, got, err, want)
	}
}

// TestAbandonedKeyIsFenced: a server is suspended before it makes its change, and the request is repeated at another
// one. When the first server continues, it can neither make the change again nor replace the answer.
func TestAbandonedKeyIsFenced(t *testing.T) {
	w := newKeyedWorld(t)
	first, _, err := w.begin("f")
	w.must(err)
	w.age(maxKeyedDuration - time.Minute)
	_, _, err = w.begin("f")
	wantCode(t, "a repetition while the first may run", err, "idempotency_key_running")
	w.age(2 * time.Minute)
	second, _, err := w.begin("f")
	w.must(err)
	wantCode(t, "the change of the first", w.change(first), "idempotency_key_lost")
	w.must(w.change(second))
	wantCode(t, "the change of the first after the second", w.change(first), "idempotency_key_lost")
	w.must(second.Finish(t.Context(), KeyedAnswer{Status: 201, Body: []byte("second")}))
	err = first.Finish(t.Context(), KeyedAnswer{Status: 201, Body: []byte("first")})
	wantCode(t, "the answer of the first", err, "idempotency_key_lost")
	err = first.Finish(t.Context(), KeyedAnswer{Status: 409, Body: []byte("first")})
	wantCode(t, "the failure of the first", err, "idempotency_key_lost")
	_, kept, err := w.begin("f")
	w.must(err)
	if kept == nil || string(kept.Body) != "second" {
		t.Errorf("the kept answer: got %+v, want second", kept)
	}
}

// TestAnswerOfAnEndedServerIsLost: a server ends after it made the change and before it stored the answer.
func TestAnswerOfAnEndedServerIsLost(t *testing.T) {
	w := newKeyedWorld(t)
	first, _, err := w.begin("f")
	w.must(err)
	w.must(w.change(first))
	_, _, err = w.begin("f")
	wantCode(t, "a repetition while the first may run", err, "idempotency_key_running")
	w.age(maxKeyedDuration + time.Minute)
	_, _, err = w.begin("f")
	wantCode(t, "a repetition later", err, "idempotency_answer_lost")
	_, _, err = w.begin("another")
	wantCode(t, "another request", err, "idempotency_key_reused")
	w.must(first.Finish(t.Context(), KeyedAnswer{Status: 201, Body: []byte("late")}))
	_, kept, err := w.begin("f")
	w.must(err)
	if kept == nil || string(kept.Body) != "late" {
		t.Errorf("the kept answer: got %+v, want late", kept)
	}
}

// TestTemporaryAnswerIsNotKept: a request makes its change and then exceeds its time. Its key does not answer with a
// time-out for a day.
func TestTemporaryAnswerIsNotKept(t *testing.T) {
	w := newKeyedWorld(t)
	first, _, err := w.begin("f")
	w.must(err)
	w.must(first.Finish(t.Context(), KeyedAnswer{Status: 504}))
	second, _, err := w.begin("f") // nothing was changed
	w.must(err)
	w.must(w.change(second))
	wantCode(t, "its answer", second.Finish(t.Context(), KeyedAnswer{Status: 504}), "idempotency_answer_lost")
	_, _, err = w.begin("f")
	wantCode(t, "a repetition", err, "idempotency_answer_lost")
}

// TestKeysOfASenderAreLimited: one sender cannot fill the database with answers.
func TestKeysOfASenderAreLimited(t *testing.T) {
	w := newKeyedWorld(t)
	first, _, err := w.begin("f")
	w.must(err)
	w.must(first.Finish(t.Context(), KeyedAnswer{Status: 201}))
	w.exec("UPDATE idempotency_keys SET answer_bytes = $1", maxLiveKeyedBytes+1)
	begin := func(sender, key string) error {
		_, _, err := w.c.BeginKeyed(t.Context(), Sender{OrganizationID: w.org, ID: sender}, key, []byte("f"))
		return err
	}
	wantCode(t, "a new key", begin("x", "another"), "idempotency_keys_full")
	wantCode(t, "the same key", begin("x", "k"), "")
	wantCode(t, "another sender", begin("y", "another"), "")
	w.exec("UPDATE idempotency_keys SET expires_at = $1", int64(1))
	wantCode(t, "a new key after the others expired", begin("x", "another"), "")
	for _, c := range []struct {
		used store.KeyUsage
		want bool
	}{
		{store.KeyUsage{Keys: maxLiveKeys, Bytes: maxLiveKeyedBytes}, false},
		{store.KeyUsage{Keys: maxLiveKeys + 1}, true},
		{store.KeyUsage{Bytes: maxLiveKeyedBytes + 1}, true},
	} {
		if got := exceedsLimits(c.used); got != c.want {
			t.Errorf("%+v: got %t, want %t", c.used, got, c.want)
		}
	}
}

// TestAgeOfAKey checks when a request counts as abandoned and when its answer counts as lost.
func TestAgeOfAKey(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		name      string
		record    store.KeyedRequest
		abandoned bool
		lost      bool
	}{
		{"at the limit", store.KeyedRequest{CreatedAt: now.Add(-maxKeyedDuration)}, false, false},
		{"after the limit", store.KeyedRequest{CreatedAt: now.Add(-maxKeyedDuration - 1)}, true, false},
		{"changed", store.KeyedRequest{CreatedAt: now.Add(-maxKeyedDuration - 1), Changed: true}, false, true},
		{"answered", store.KeyedRequest{CreatedAt: now.Add(-time.Hour), Status: 201, Changed: true}, false, false},
		{"of a clock that is ahead", store.KeyedRequest{CreatedAt: now.Add(time.Hour), Changed: true}, false, false},
	} {
		if got := abandoned(c.record, now); got != c.abandoned {
			t.Errorf("%s: got abandoned %t, want %t", c.name, got, c.abandoned)
		}
		if got := answerLost(c.record, now); got != c.lost {
			t.Errorf("%s: got lost %t, want %t", c.name, got, c.lost)
		}
	}
}
