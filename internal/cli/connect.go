package cli

import (
	"cmp"
	"os"
	"strings"

	"legwork/internal/api"
	"legwork/internal/fault"
)

const defaultServer = "http://127.0.0.1:8440"

// client makes a client of the Server that flags and environment name.
func (a *app) client() (*api.Client, error) {
	token, err := a.readToken()
	if err != nil {
		return nil, err
	}
	return api.NewClient(api.ClientOptions{
		Server: a.serverURL(), Token: token, CAFile: a.caFileName(), Version: a.programs.Version,
		AllowPlainHTTP: a.allowPlainHTTP || a.Env("LEGWORK_ALLOW_PLAIN_HTTP") == "true",
	})
}

func (a *app) caFileName() string { return cmp.Or(a.caFile, a.Env("LEGWORK_CA_FILE")) }

func (a *app) serverURL() string { return cmp.Or(a.server, a.Env("LEGWORK_SERVER"), defaultServer) }

// readToken looks at the flag, then at the environment. There is no flag for the token itself: what
// stands on a command line is seen by every user of the host.
func (a *app) readToken() (string, error) {
	token := a.Env("LEGWORK_TOKEN")
	file := a.token
	if file == "" && token == "" {
		file = a.Env("LEGWORK_TOKEN_FILE")
	}
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fault.New(fault.Invalid, "token_file", "the file %s with the token cannot be read", file).
				WithHint("check --token-file or LEGWORK_TOKEN_FILE, and who may read the file").WithCause(err)
		}
		token = string(text)
	}
	token = strings.TrimSpace(token)
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fault.New(fault.Invalid, "token_malformed", "the token is not one line of plain characters").
			WithHint("LEGWORK_TOKEN or the token file must hold the token alone")
	}
	return token, nil
}
