package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"legwork/internal/fault"
)

// TokenPath is where a Server gives out tokens.
const TokenPath = "/connect/token"

// Token is a bearer token.
type Token struct {
	Value   string
	Expires time.Time
}

// Fresh tells whether the token is there and good for a while after now.
func (t Token) Fresh(now time.Time) bool {
	return t.Value != "" && now.Add(15*time.Second).Before(t.Expires)
}

// Client is who asks for a token. On the wire its id is preceded by that of its Organization.
type Client struct {
	OrganizationID string
	ID             string
	Secret         string
}

// FetchToken asks the Server at base for a token by client_credentials (RFC 6749, 4.4). Its errors are
// faults: Unauthenticated when id or secret are wrong, which trying again does not heal;
// Unsupported with code NotLegwork when something else answers; Unavailable when nobody does.
func FetchToken(ctx context.Context, client *http.Client, base string, who Client) (Token, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	base = strings.TrimRight(base, "/")
	form := url.Values{"grant_type": {"client_credentials"},
		"client_id": {who.OrganizationID + ":" + who.ID}, "client_secret": {who.Secret}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+TokenPath, strings.NewReader(form.Encode()))
	if err != nil {
		return Token{}, fmt.Errorf("asking for a token: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	asked := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return Token{}, unreachable(base, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return Token{}, unreachable(base, err)
	}
	return readToken(base, resp, body, asked)
}

// readToken gives the meaning of an answer of the token endpoint (RFC 6749, 5.1 and 5.2).
func readToken(base string, resp *http.Response, body []byte, asked time.Time) (Token, error) {
	var answer struct {
		AccessToken string  `json:"access_token"`
		TokenType   string  `json:"token_type"`
		ExpiresIn   float64 `json:"expires_in"`
		Error       string  `json:"error"`
		Description string  `json:"error_description"`
	}
	readable := json.Unmarshal(body, &answer) == nil
	switch {
	case readable && resp.StatusCode == http.StatusOK && answer.AccessToken != "":
		life := time.Duration(min(max(answer.ExpiresIn, 30), 86400) * float64(time.Second))
		return Token{Value: answer.AccessToken, Expires: asked.Add(life)}, nil
	case readable && answer.Error != "" && resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests:
		return Token{}, loginRefused(answer.Error, cut(answer.Description, 300))
	case readable && answer.Error != "":
		return Token{}, unavailable(base, resp.StatusCode)
	}
	err := refused(base, resp, body)
	if CodeOf(err) == CloseUnauthorized {
		return Token{}, loginRefused("invalid_client", "")
	}
	return Token{}, err
}

func loginRefused(code, description string) error {
	message := "the Server refused the Runner's login"
	if code == "invalid_client" {
		message += ": client id, secret or Organization is wrong"
	} else if description != "" {
		message += ": " + description
	} else {
		message += " (" + cut(code, 60) + ")"
	}
	return fault.New(fault.Unauthenticated, "login_refused", "%s", message).
		WithHint("check Runner.OrganizationId, Runner.Credentials.ClientId and Runner.Credentials.ClientSecret; " +
			"a new secret comes from `legwork runner credential RUNNER`")
}
