package harness_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"legwork/internal/harness"
)

// api is the smallest client there is, so that what is measured is the Server.
type api struct {
	s     *harness.Server
	token string
	http  *http.Client
}

func newAPI(s *harness.Server) *api {
	return &api{s, s.Token(), &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
}

func (a *api) call(method, path string, body any, into any) (int, error) {
	var in io.Reader
	if body != nil {
		b, _ := json.Marshal(body)
		in = bytes.NewReader(b)
	}
	req, err := http.NewRequest(method, a.s.URL+path, in)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	req.Header.Set("Content-Type", "application/json")
	res, err := a.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && into != nil && res.StatusCode < 300 {
		err = json.Unmarshal(b, into)
	}
	return res.StatusCode, err
}
