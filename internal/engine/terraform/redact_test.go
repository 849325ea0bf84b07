package terraform

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"legwork/internal/catalog"
)

// TestFormsOfASecret: a plan shows, and an output that everybody reads carries, no form of a sensitive Input that a log masks.
func TestFormsOfASecret(t *testing.T) {
	const secret = "Zq9-Super\"Secret/7713"
	encode := base64.StdEncoding.EncodeToString
	quoted, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"literal": "x " + secret, "base64": encode([]byte(secret)), "base64 of user data": encode([]byte("user=x pass=" + secret + " end")),
		"base64, one byte before": encode([]byte("a" + secret + "b")), "base64, two bytes before": encode([]byte("ab" + secret)),
		"JSON": string(quoted), "URL": url.QueryEscape(secret), "upper case": strings.ToUpper(secret), "lower case": strings.ToLower(secret),
	} {
		t.Run(name, func(t *testing.T) {
			p := reader(secret)
			value, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			changes := read(t, p, planOf(resourceJSON("a", "managed", fmt.Sprintf(`{"actions":["create"],"after":{"deep":[%s]}}`, value))))
			shown, err := json.Marshal(changes)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(shown), string(value[1:len(value)-1])) || !strings.Contains(string(shown), hidden) {
				t.Errorf("the plan shows %s", shown)
			}
			outputs, err := tidy(map[string]catalog.OutputValue{"o": {Value: fmt.Appendf(nil, `{"deep": [%s]}`, value)}}, newRedactor([]string{secret}))
			if err != nil || !outputs["o"].Sensitive {
				t.Errorf("the output is %+v, %v, want it sensitive", outputs["o"], err)
			}
		})
	}
}
