package reference

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azsecrets"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"
	"github.com/openbao/openbao/api/v2"
	"google.golang.org/api/secretmanager/v1"

	"legwork/internal/fault"
)

// The limits of a list.
const (
	listedMost = 1_000
	depthMost  = 4   // of folders below the one that is listed
	readMost   = 200 // secrets of a vault whose keys are looked at
)

// errEnough ends a walk once there is as much as is listed.
var errEnough = errors.New("there are enough")

// List gives references that are there at a place, in order, at most a thousand, and never what stands behind them. The place is written as a
// reference: ${file:/run/secrets} a folder, ${env:APP_} what variables begin with, ${vault:secret/data/app} a path of a KV version 2,
// ${aws:app/} what names begin with, ${azure:https://v.vault.azure.net}, ${google:projects/p}. Commands cannot be listed.
// Errors are those of Get.
func (r Rules) List(ctx context.Context, place string) ([]string, error) {
	if err := r.allow(place); err != nil {
		return nil, err
	}
	scheme, rest, _ := strings.Cut(place[2:len(place)-1], ":")
	list := map[string]func(context.Context, string) ([]string, error){
		"file": r.listFiles, "env": r.listVariables, "vault": listVault, "aws": listAWS, "azure": listAzure, "google": listGoogle,
	}[scheme]
	if list == nil || rest == "" {
		return nil, invalid(place, "nothing can be listed there")
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, err := list(ctx, rest)
	var form errForm
	var refused *fault.Fault
	switch {
	case errors.As(err, &form):
		return nil, invalid(place, form.Error())
	case errors.As(err, &refused):
		return nil, refused
	case err != nil:
		return nil, fault.New(fault.Unavailable, "reference_unavailable", "what is at %.200s cannot be listed: %s", place, brief(err))
	}
	for i := range found {
		found[i] = "${" + scheme + ":" + found[i] + "}"
	}
	slices.Sort(found)
	return found[:min(len(found), listedMost)], nil
}

func (r Rules) listFiles(ctx context.Context, folder string) (found []string, err error) {
	if !filepath.IsAbs(folder) {
		return nil, errForm("it needs a whole path")
	}
	root, name := (*os.Root)(nil), "."
	if r.Folders == nil {
		root, err = os.OpenRoot(folder)
	} else {
		root, name, err = r.below(folder)
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), filepath.ToSlash(name), func(at string, d fs.DirEntry, err error) error {
		switch below, _ := filepath.Rel(name, at); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case at != filepath.ToSlash(name) && strings.HasPrefix(d.Name(), "."), d.IsDir() && strings.Count(below, "/") >= depthMost:
			if d.IsDir() {
				return fs.SkipDir
			}
		case !d.IsDir():
			if info, err := root.Stat(at); err == nil && info.Mode().IsRegular() {
				found = append(found, filepath.Join(root.Name(), at))
			}
		}
		if len(found) >= listedMost {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return found, err
}

func (r Rules) listVariables(_ context.Context, prefix string) (found []string, err error) {
	environ := r.Environ
	if environ == nil {
		environ = os.Environ()
	}
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, strings.TrimSuffix(prefix, "*")) && !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	return found, nil
}

// listVault lists the keys of the secrets below a path of a KV version 2. Their values are read, and go no further.
func listVault(ctx context.Context, rest string) ([]string, error) {
	mount, below, ok := strings.Cut(strings.TrimSuffix(rest, "/")+"/", "/data/")
	if !ok || strings.Contains(rest, "#") {
		return nil, errForm("it needs the form ${vault:MOUNT/data/PATH}")
	}
	settings := api.DefaultConfig()
	if settings.Error != nil {
		return nil, settings.Error
	}
	client, err := api.NewClient(settings)
	if err != nil {
		return nil, err
	}
	defer settings.HttpClient.CloseIdleConnections()
	w := vaultWalk{ctx: ctx, client: client, mount: mount}
	err = w.folder(strings.Trim(below, "/"), 0)
	return w.found, err
}

type vaultWalk struct {
	ctx    context.Context
	client *api.Client
	mount  string
	read   int
	found  []string
}

func (w *vaultWalk) folder(at string, depth int) error {
	listed, err := w.client.Logical().ListWithContext(w.ctx, path.Join(w.mount, "metadata", at))
	var answer *api.ResponseError
	if errors.As(err, &answer) {
		return fmt.Errorf("%s answers %d: %s", w.client.Address(), answer.StatusCode, strings.Join(answer.Errors, ", "))
	}
	if err != nil {
		return err
	}
	if listed == nil { // no folder: perhaps a secret
		return w.secret(at)
	}
	names, _ := listed.Data["keys"].([]any)
	for _, name := range names {
		text, _ := name.(string)
		below := path.Join(at, text)
		switch {
		case text == "" || len(w.found) >= listedMost:
		case !strings.HasSuffix(text, "/"):
			err = w.secret(below)
		case depth < depthMost:
			err = w.folder(below, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// secret adds the keys of a secret; those of one that may not be read are left to whoever knows them.
func (w *vaultWalk) secret(at string) error {
	if w.read++; w.read > readMost || at == "" {
		return nil
	}
	got, err := w.client.Logical().ReadWithContext(w.ctx, path.Join(w.mount, "data", at))
	if w.ctx.Err() != nil {
		return w.ctx.Err()
	}
	if err != nil || got == nil {
		return nil
	}
	data, _ := got.Data["data"].(map[string]any)
	for key := range data {
		w.found = append(w.found, path.Join(w.mount, "data", at)+"#"+key)
	}
	return nil
}

func listAWS(ctx context.Context, prefix string) (found []string, err error) {
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	input := &secretsmanager.ListSecretsInput{}
	if prefix != "*" {
		input.Filters = []types.Filter{{Key: types.FilterNameStringTypeName, Values: []string{prefix}}}
	}
	pages := secretsmanager.NewListSecretsPaginator(secretsmanager.NewFromConfig(settings), input)
	for pages.HasMorePages() && len(found) < listedMost {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, s := range page.SecretList {
			if s.Name != nil {
				found = append(found, *s.Name)
			}
		}
	}
	return found, nil
}

func listAzure(ctx context.Context, vault string) (found []string, err error) {
	u, err := url.Parse(vault)
	if err != nil || u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return nil, errForm("it needs the form ${azure:https://VAULT}")
	}
	login, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, err
	}
	client, err := azsecrets.NewClient("https://"+u.Host, login, nil)
	if err != nil {
		return nil, err
	}
	for pages := client.NewListSecretPropertiesPager(nil); pages.More() && len(found) < listedMost; {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, s := range page.Value {
			if s != nil && s.ID != nil {
				found = append(found, "https://"+u.Host+"/secrets/"+s.ID.Name())
			}
		}
	}
	return found, nil
}

func listGoogle(ctx context.Context, project string) (found []string, err error) {
	if parts := strings.Split(project, "/"); len(parts) != 2 || parts[0] != "projects" || parts[1] == "" {
		return nil, errForm("it needs the form ${google:projects/PROJECT}")
	}
	client, err := secretmanager.NewService(ctx)
	if err != nil {
		return nil, err
	}
	err = client.Projects.Secrets.List(project).Pages(ctx, func(page *secretmanager.ListSecretsResponse) error {
		for _, s := range page.Secrets {
			found = append(found, s.Name+"/versions/latest")
		}
		if len(found) >= listedMost {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return found, err
}
