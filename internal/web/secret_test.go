package web_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"legwork/internal/catalog"
	"legwork/internal/web"
)

// A secret that was made is shown, whatever fails after that.
func TestSecretIsShownWhateverFailsAfterIt(t *testing.T) {
	w := start(t)
	made, err := w.Control.CreateRunner(context.Background(), owner(w), catalog.RunnerSpec{Name: "lab"})
	w.Must(err)
	pages := web.New(web.Options{Control: w.Control, Access: w.Access, Log: slog.New(slog.DiscardHandler)})
	over, end := context.WithCancel(context.Background())
	end()
	for name, c := range map[string]struct {
		ctx   context.Context
		later error
		want  string
	}{
		"nothing": {context.Background(), nil, "see it again"}, "the step after": {context.Background(), errors.New("cut"), "what was to follow failed"},
		"its re-read": {over, nil, "what was to follow failed"},
	} {
		text, err := web.ShownSecret(c.ctx, pages, owner(w), made, c.later)
		if err != nil || !strings.Contains(text, made.ClientSecret) || !strings.Contains(text, c.want) || strings.Contains(text, "to follow") != (name != "nothing") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}
