package api

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// describePlain describes what the library does not serve: the token endpoint, health and metrics.
func describePlain(spec *huma.OpenAPI) {
	text := func(description string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, Description: description}
	}
	object := func(required []string, properties map[string]*huma.Schema) *huma.Schema {
		return &huma.Schema{Type: huma.TypeObject, Properties: properties, Required: required}
	}
	answer := func(description, kind string, schema *huma.Schema) *huma.Response {
		return &huma.Response{Description: description, Content: map[string]*huma.MediaType{kind: {Schema: schema}}}
	}
	problem := answer("What is wrong", problemType, &huma.Schema{Ref: "#/components/schemas/Problem"})
	public := []map[string][]string{{}}
	add := func(op huma.Operation) { spec.AddOperation(&op) }

	token := operation("issue-token", http.MethodPost, "/connect/token", "Login", "A short token for client credentials (OAuth 2.0, RFC 6749 section 4.4)")
	token.Description = "The client may name itself with HTTP Basic instead of the form."
	token.Security = public
	token.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/x-www-form-urlencoded": {
		Schema: object([]string{"grant_type"}, map[string]*huma.Schema{
			"grant_type":    {Type: huma.TypeString, Description: "Always client_credentials.", Enum: []any{"client_credentials"}},
			"client_id":     text("{organization id}:{client id}"),
			"client_secret": text("One of the secrets of the Service principal."),
		})}}}
	refused := answer("Why there is none", "application/json", object([]string{"error", "error_description"},
		map[string]*huma.Schema{"error": text("A code of RFC 6749 section 5.2."), "error_description": text("A sentence for a person.")}))
	token.Responses = map[string]*huma.Response{
		"200": answer("The token", "application/json", object([]string{"access_token", "token_type", "expires_in"}, map[string]*huma.Schema{
			"access_token": text("Sent as Authorization: Bearer."), "token_type": text("Bearer"),
			"expires_in": {Type: huma.TypeInteger, Description: "Seconds."},
		})),
		"400": refused, "401": refused, "429": refused, "503": refused, "default": problem,
	}
	add(token)

	status := answer("It does", "application/json", object([]string{"status"}, map[string]*huma.Schema{"status": text("Always ok.")}))
	health := operation("health", http.MethodGet, "/healthz", "Health", "Whether the process answers")
	health.Security, health.Responses = public, map[string]*huma.Response{"200": status}
	add(health)
	ready := operation("ready", http.MethodGet, "/readyz", "Health", "Whether this Server takes requests: its database answers, and it is not stopping")
	ready.Security, ready.Responses = public, map[string]*huma.Response{"200": status, "503": problem}
	add(ready)
	metrics := operation("metrics", http.MethodGet, "/metrics", "Health", "Metrics for Prometheus; without a token only where metrics_public is set")
	metrics.Responses = map[string]*huma.Response{"200": answer("The metrics", plainType, text("In the text format of Prometheus.")), "default": problem}
	add(metrics)
}
