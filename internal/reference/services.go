package reference

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azsecrets"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/openbao/openbao/api/v2"
	"google.golang.org/api/option"
	"google.golang.org/api/secretmanager/v1"
)

// vault reads a secret of KV version 2: mount/data/path#key.
func vault(ctx context.Context, rest string) (string, error) {
	path, key, keyed := strings.Cut(rest, "#")
	if !keyed || key == "" || !strings.Contains(path, "/data/") {
		return "", errForm("it needs the form ${vault:MOUNT/data/PATH#KEY}")
	}
	settings := api.DefaultConfig()
	if settings.Error != nil {
		return "", settings.Error
	}
	client, err := api.NewClient(settings)
	if err != nil {
		return "", err
	}
	defer settings.HttpClient.CloseIdleConnections()
	secret, err := client.Logical().ReadWithContext(ctx, path)
	var answer *api.ResponseError
	if errors.As(err, &answer) {
		return "", fmt.Errorf("%s answers %d: %s", client.Address(), answer.StatusCode, strings.Join(answer.Errors, ", "))
	}
	if err != nil {
		return "", err
	}
	if secret == nil {
		return "", errors.New("there is no such secret")
	}
	data, ok := secret.Data["data"].(map[string]any)
	if !ok {
		return "", errors.New("it was deleted, or is not in a KV version 2")
	}
	return keyOf(data, key)
}

// aws reads a secret of AWS Secrets Manager by name or ARN. The region is that of the ARN, if it is one.
func aws(ctx context.Context, rest string) (string, error) {
	return withKey(rest, func(name string) (string, error) {
		var options []func(*config.LoadOptions) error
		if parts := strings.Split(name, ":"); len(parts) > 3 && parts[0] == "arn" {
			options = append(options, config.WithRegion(parts[3]))
		}
		settings, err := config.LoadDefaultConfig(ctx, options...)
		if err != nil {
			return "", err
		}
		got, err := secretsmanager.NewFromConfig(settings).GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &name})
		switch {
		case err != nil:
			return "", err
		case got.SecretString != nil:
			return *got.SecretString, nil
		}
		return string(got.SecretBinary), nil
	})
}

// azure reads a secret of Azure Key Vault: the URL of the vault, /secrets/, its name, and perhaps a version.
func azure(ctx context.Context, rest string) (string, error) { return azureWith(ctx, rest, nil) }

// azureWith reads through another transport than the default one, if it is not nil.
func azureWith(ctx context.Context, rest string, transport *http.Client) (string, error) {
	return withKey(rest, func(name string) (string, error) {
		u, err := url.Parse(name)
		if err != nil || u.Scheme != "https" || u.Host == "" {
			return "", errForm("it needs the form ${azure:https://VAULT/secrets/NAME}")
		}
		parts := strings.Split(strings.Trim(u.Path, "/"), "/")
		if len(parts) < 2 || len(parts) > 3 || parts[0] != "secrets" {
			return "", errForm("it needs the form ${azure:https://VAULT/secrets/NAME}")
		}
		version := strings.Join(parts[2:], "")
		var common azcore.ClientOptions
		if transport != nil {
			common.Transport = transport
		}
		// A transport of one's own comes with a login service and a vault of one's own.
		login, err := azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: common, DisableInstanceDiscovery: transport != nil})
		if err != nil {
			return "", err
		}
		client, err := azsecrets.NewClient("https://"+u.Host, login, &azsecrets.ClientOptions{ClientOptions: common, DisableChallengeResourceVerification: transport != nil})
		if err != nil {
			return "", err
		}
		got, err := client.GetSecret(ctx, parts[1], version, nil)
		if err != nil {
			return "", err
		}
		if got.Value == nil {
			return "", errors.New("it has no value")
		}
		return *got.Value, nil
	})
}

// google reads a version of a secret of Google Secret Manager by its full name.
func google(ctx context.Context, rest string) (string, error) { return googleWith(ctx, rest) }

func googleWith(ctx context.Context, rest string, options ...option.ClientOption) (string, error) {
	return withKey(rest, func(name string) (string, error) {
		if parts := strings.Split(name, "/"); !strings.HasPrefix(name, "projects/") || len(parts) < 6 || parts[len(parts)-2] != "versions" {
			return "", errForm("it needs the form ${google:projects/PROJECT/secrets/NAME/versions/VERSION}")
		}
		client, err := secretmanager.NewService(ctx, append([]option.ClientOption{option.WithScopes(secretmanager.CloudPlatformScope)}, options...)...)
		if err != nil {
			return "", err
		}
		got, err := client.Projects.Secrets.Versions.Access(name).Context(ctx).Do()
		if err != nil {
			return "", err
		}
		if got.Payload == nil {
			return "", errors.New("it has no value")
		}
		data, err := base64.StdEncoding.DecodeString(got.Payload.Data)
		return string(data), err
	})
}
