package api

import (
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"legwork/internal/access"
	"legwork/internal/fault"
)

const maxFormBytes = 64 << 10

// tokenAnswer is a successful answer of the token endpoint (RFC 6749 section 5.1).
type tokenAnswer struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int    `json:"expires_in"` // seconds
}

// tokenError is any other one (RFC 6749 section 5.2).
type tokenError struct {
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

// issueToken is the token endpoint for client_credentials (RFC 6749 section 4.4). The client names
// itself in the form or with HTTP Basic (section 2.3.1).
func (s *Server) issueToken(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Pragma", "no-cache")
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "application/x-www-form-urlencoded" {
		tokenRefused(w, http.StatusBadRequest, "invalid_request", "the body must be a form (application/x-www-form-urlencoded)")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
	if err := r.ParseForm(); err != nil {
		tokenRefused(w, http.StatusBadRequest, "invalid_request", "the form cannot be read, or is too large")
		return
	}
	if twice(r.PostForm) {
		tokenRefused(w, http.StatusBadRequest, "invalid_request", "a parameter is given more than once")
		return
	}
	switch r.PostForm.Get("grant_type") {
	case "client_credentials":
	case "":
		tokenRefused(w, http.StatusBadRequest, "invalid_request", "grant_type is missing")
		return
	default:
		tokenRefused(w, http.StatusBadRequest, "unsupported_grant_type", "the one grant here is client_credentials")
		return
	}
	login, ok := clientOf(r)
	if !ok {
		tokenRefused(w, http.StatusBadRequest, "invalid_request", "the client names itself both in the form and with HTTP Basic")
		return
	}
	login.Address = requestOf(r.Context()).address
	token, err := s.Access.Issue(r.Context(), login)
	if err != nil {
		s.loginRefused(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, tokenAnswer{AccessToken: token.Text, TokenType: "Bearer", ExpiresIn: int(token.Expires.Seconds())})
}

func twice(form url.Values) bool {
	for _, values := range form {
		if len(values) > 1 {
			return true
		}
	}
	return false
}

// clientOf reads who logs in. ok is false when the client used both ways at once.
func clientOf(r *http.Request) (login access.Login, ok bool) {
	login = access.Login{ClientID: r.PostForm.Get("client_id"), ClientSecret: r.PostForm.Get("client_secret")}
	user, password, basic := r.BasicAuth()
	if !basic {
		return login, true
	}
	if login.ClientSecret != "" {
		return login, false
	}
	user, password = unescaped(user), unescaped(password)
	if !strings.Contains(user, ":") {
		// A client that did not encode the colon of its id: Basic cut there.
		if client, secret, cut := strings.Cut(password, ":"); cut {
			user, password = user+":"+client, secret
		}
	}
	login.ClientID, login.ClientSecret = user, password
	return login, true
}

// unescaped undoes the encoding of RFC 6749 section 2.3.1, where there is one.
func unescaped(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}

func (s *Server) loginRefused(w http.ResponseWriter, r *http.Request, err error) {
	f := fault.Of(err)
	switch f.Kind {
	case fault.Unauthenticated:
		if _, _, basic := r.BasicAuth(); basic {
			w.Header().Set("WWW-Authenticate", `Basic realm="legwork"`)
		}
		tokenRefused(w, http.StatusUnauthorized, "invalid_client", f.Message+": "+f.Hint)
	case fault.RateLimited:
		w.Header().Set("Retry-After", "10")
		tokenRefused(w, http.StatusTooManyRequests, "temporarily_unavailable", f.Message+": "+f.Hint)
	case fault.Unavailable:
		tokenRefused(w, http.StatusServiceUnavailable, "temporarily_unavailable", f.Message)
	default:
		s.writeProblem(w, r, err)
	}
}

// tokenRefused writes an error with the characters that RFC 6749 section 5.2 allows in a description.
func tokenRefused(w http.ResponseWriter, status int, code, description string) {
	plain := strings.Map(func(c rune) rune {
		switch {
		case c == '"':
			return '\''
		case c == '\\' || c < 0x20 || c > 0x7e:
			return -1
		}
		return c
	}, description)
	writeJSON(w, status, tokenError{Error: code, Description: plain})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	text, _ := json.Marshal(v) // strings and numbers: it cannot fail
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // whoever left does not hear it
}
