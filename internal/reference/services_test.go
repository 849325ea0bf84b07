package reference

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/api/option"

	"legwork/internal/fault"
)

// answer writes JSON with a status.
func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func TestVault(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Vault-Token") != "the-token":
			answer(w, 403, map[string]any{"errors": []string{"permission denied"}})
		case r.Method == http.MethodGet && r.URL.Path == "/v1/secret/data/apps/legwork":
			answer(w, 200, map[string]any{"request_id": "1", "data": map[string]any{
				"data": map[string]any{"secret": value, "number": 7}, "metadata": map[string]any{"version": 3, "destroyed": false}}})
		case r.URL.Path == "/v1/secret/data/deleted": // as KV version 2 answers for a deleted version
			answer(w, 404, map[string]any{"data": map[string]any{"data": nil, "metadata": map[string]any{"deletion_time": "2026-01-01T00:00:00Z"}}})
		default:
			answer(w, 404, map[string]any{"errors": []string{}})
		}
	}))
	defer server.Close()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("VAULT_ADDR", server.URL)
	t.Setenv("VAULT_TOKEN", "the-token")
	want(t, "${vault:secret/data/apps/legwork#secret}", value)
	for _, name := range []string{"apps/legwork#nothing", "apps/legwork#number", "deleted#secret", "missing#secret"} {
		fails(t, "${vault:secret/data/"+name+"}", "reference_unavailable")
	}
	t.Setenv("VAULT_TOKEN", "another")
	fails(t, "${vault:secret/data/apps/legwork#secret}", "reference_unavailable")
}

func TestAWS(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ask struct {
			SecretID string `json:"SecretId"`
		}
		body, _ := io.ReadAll(r.Body)
		authorization := r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		switch {
		case !strings.HasPrefix(authorization, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/") || !strings.Contains(authorization, "/secretsmanager/aws4_request") || !strings.Contains(authorization, "Signature="):
			w.WriteHeader(400)
			fmt.Fprint(w, `{"__type":"UnrecognizedClientException","message":"The security token included in the request is invalid."}`)
		case r.Header.Get("X-Amz-Target") != "secretsmanager.GetSecretValue" || json.Unmarshal(body, &ask) != nil:
			w.WriteHeader(400)
			fmt.Fprint(w, `{"__type":"UnknownOperationException"}`)
		case ask.SecretID == "legwork/runner" && strings.Contains(authorization, "/eu-west-1/"):
			fmt.Fprintf(w, `{"Name":"legwork/runner","SecretString":%q,"VersionStages":["AWSCURRENT"]}`, `{"secret":"`+value+`"}`)
		case ask.SecretID == "arn:aws:secretsmanager:us-east-2:1:secret:x-AbCdEf" && strings.Contains(authorization, "/us-east-2/"):
			fmt.Fprintf(w, `{"Name":"x","SecretBinary":%q}`, base64.StdEncoding.EncodeToString([]byte(value)))
		default:
			w.WriteHeader(400)
			fmt.Fprint(w, `{"__type":"ResourceNotFoundException","message":"Secrets Manager can't find the specified secret."}`)
		}
	}))
	defer server.Close()
	t.Setenv("HOME", t.TempDir())
	for name, text := range map[string]string{"AWS_ENDPOINT_URL_SECRETS_MANAGER": server.URL, "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "x",
		"AWS_REGION": "eu-west-1", "AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "1"} {
		t.Setenv(name, text)
	}
	want(t, "${aws:legwork/runner}", `{"secret":"`+value+`"}`)
	want(t, "${aws:legwork/runner#secret}", value)
	want(t, "${aws:arn:aws:secretsmanager:us-east-2:1:secret:x-AbCdEf}", value)
	fails(t, "${aws:legwork/runner#nothing}", "reference_unavailable")
	fails(t, "${aws:missing}", "reference_unavailable")
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDOTHER")
	fails(t, "${aws:legwork/runner}", "reference_unavailable")
}

func TestAzure(t *testing.T) {
	const tenant = "11111111-2222-3333-4444-555555555555"
	var server *httptest.Server
	server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration"):
			answer(w, 200, map[string]any{"token_endpoint": server.URL + "/" + tenant + "/oauth2/v2.0/token", "issuer": server.URL + "/" + tenant + "/v2.0",
				"authorization_endpoint": server.URL + "/" + tenant + "/oauth2/v2.0/authorize"})
		case r.Method == http.MethodPost && r.URL.Path == "/"+tenant+"/oauth2/v2.0/token":
			if r.FormValue("client_id") != "the-client" || r.FormValue("client_secret") != "the-secret" || !strings.Contains(r.FormValue("scope"), "https://vault.azure.net/.default") {
				answer(w, 401, map[string]any{"error": "invalid_client", "error_description": "no"})
				return
			}
			answer(w, 200, map[string]any{"access_token": "the-token", "token_type": "Bearer", "expires_in": 3600})
		case r.Header.Get("Authorization") != "Bearer the-token":
			w.Header().Set("WWW-Authenticate", `Bearer authorization="`+server.URL+"/"+tenant+`", resource="https://vault.azure.net"`)
			answer(w, 401, map[string]any{"error": map[string]any{"code": "Unauthorized"}})
		case r.URL.Path == "/secrets/legwork/" || r.URL.Path == "/secrets/legwork/v2":
			answer(w, 200, map[string]any{"id": server.URL + "/secrets/legwork/v2", "value": value, "attributes": map[string]any{"enabled": true}})
		default:
			answer(w, 404, map[string]any{"error": map[string]any{"code": "SecretNotFound", "message": "not found"}})
		}
	}))
	defer server.Close()
	for name, text := range map[string]string{"AZURE_AUTHORITY_HOST": server.URL + "/", "AZURE_TENANT_ID": tenant, "AZURE_CLIENT_ID": "the-client", "AZURE_CLIENT_SECRET": "the-secret",
		"AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential"} {
		t.Setenv(name, text)
	}
	get := func(name string) (string, error) {
		return azureWith(t.Context(), server.URL+"/secrets/"+name, server.Client())
	}
	for _, name := range []string{"legwork", "legwork/v2"} {
		if got, err := get(name); err != nil || got != value {
			t.Errorf("%s: got %q %v", name, got, err)
		}
	}
	if got, err := get("missing"); err == nil || strings.Contains(brief(err), value) {
		t.Errorf("missing: got %q %v", got, err)
	}
	t.Setenv("AZURE_CLIENT_SECRET", "another")
	if got, err := get("legwork"); err == nil {
		t.Errorf("with a wrong secret: %q", got)
	}
}

func TestGoogle(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			if r.FormValue("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" || strings.Count(r.FormValue("assertion"), ".") != 2 {
				answer(w, 400, map[string]any{"error": "invalid_grant"})
				return
			}
			answer(w, 200, map[string]any{"access_token": "the-token", "token_type": "Bearer", "expires_in": 3600})
		case r.Header.Get("Authorization") != "Bearer the-token":
			answer(w, 401, map[string]any{"error": map[string]any{"code": 401, "message": "no", "status": "UNAUTHENTICATED"}})
		case r.URL.Path == "/v1/projects/p/secrets/legwork/versions/latest:access":
			answer(w, 200, map[string]any{"name": "projects/1/secrets/legwork/versions/4", "payload": map[string]any{"data": base64.StdEncoding.EncodeToString([]byte(value))}})
		default:
			answer(w, 404, map[string]any{"error": map[string]any{"code": 404, "message": "Secret not found.", "status": "NOT_FOUND"}})
		}
	}))
	defer server.Close()
	account, err := json.Marshal(map[string]string{"type": "service_account", "project_id": "p", "private_key_id": "1", "client_email": "runner@p.iam.gserviceaccount.com",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": server.URL + "/token"})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "account.json")
	if err := os.WriteFile(path, account, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", path)
	endpoint := option.WithEndpoint(server.URL + "/")
	if got, err := googleWith(t.Context(), "projects/p/secrets/legwork/versions/latest", endpoint); err != nil || got != value {
		t.Errorf("got %q %v", got, err)
	}
	if got, err := googleWith(t.Context(), "projects/p/secrets/missing/versions/latest", endpoint); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("missing: got %q %v", got, err)
	}
	if _, err := googleWith(t.Context(), "projects/p/secrets/legwork/versions/latest#key", endpoint); err == nil || strings.Contains(err.Error(), value) || fault.Code(err) != "" {
		t.Errorf("got %v", err)
	}
}
