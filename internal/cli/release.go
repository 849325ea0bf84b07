package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"legwork/internal/api"
	"legwork/internal/fault"
	rel "legwork/internal/release"
)

func (a *app) releaseCommand() *cobra.Command {
	return parent("release", "Releases of this program: sign and publish them, for Runners to update to",
		a.releaseKeygen(), a.releaseSign(), a.releasePublish(), a.releaseList(), a.releaseShow(), a.releaseWithdraw())
}

// What the environment says of the private key: a password on a command line is seen by every user of the host.
const (
	releaseKeyVariable      = "LEGWORK_RELEASE_KEY"
	releasePasswordVariable = "LEGWORK_RELEASE_PASSWORD"
)

func (a *app) releaseKeygen() *cobra.Command {
	return &cobra.Command{
		Use: "keygen FILE", Short: "Make a key that signs releases: FILE is the private one, FILE.pub the public one", Args: exactly("FILE"),
		Long: "Make a key that signs releases, in the format of minisign: FILE is the private one, FILE.pub the public one, which goes into release_keys\n" +
			"of Servers and Runners. With a password in " + releasePasswordVariable + " the private key is encrypted.",
		RunE: func(_ *cobra.Command, args []string) error {
			public, private, err := rel.GenerateKey(a.Env(releasePasswordVariable))
			if err != nil {
				return err
			}
			if err := writeNew(args[0], private, 0o600); err != nil {
				return err
			}
			if err := writeNew(args[0]+".pub", public, 0o644); err != nil {
				return errors.Join(err, os.Remove(args[0])) // a private key without its public one is of no use
			}
			_, key, _ := strings.Cut(strings.TrimSpace(string(public)), "\n")
			fmt.Fprintf(a.Out, "private key: %s\npublic key:  %s.pub\nrelease_keys: [%q]\n", args[0], args[0], key)
			return nil
		},
	}
}

// writeNew writes a file that is not there yet.
func writeNew(path string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return fault.New(fault.Conflict, "file_exists", "%s is there already", path).WithHint("name another file: keys are not overwritten")
	}
	if err != nil {
		return fault.New(fault.Invalid, "file_unwritable", "%s cannot be written", path).WithHint("name a file in a folder where this user may write").WithCause(err)
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// signing is what makes and signs a manifest.
type signing struct {
	dir, key, notes, version, channel, at string
}

func (s *signing) flags(a *app, cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.key, "key", a.Env(releaseKeyVariable), "file of the private key ("+releaseKeyVariable+"; its password is in "+releasePasswordVariable+")")
	cmd.Flags().StringVar(&s.notes, "notes", "", "Markdown file of the release notes")
	cmd.Flags().StringVar(&s.channel, "channel", "", "stable or candidate: the version must be one of it")
}

// manifest makes the manifest of the folder; what no flag says is taken from the one that is there.
func (s *signing) manifest() (rel.Manifest, error) {
	var m rel.Manifest
	text, err := os.ReadFile(filepath.Join(s.dir, rel.ManifestName))
	if err == nil {
		if m, err = rel.Parse(text); err != nil {
			return m, err
		}
	} else if s.version == "" {
		return m, fault.New(fault.Invalid, "release_folder", "there is no %s in %s, so that the version is not known", rel.ManifestName, s.dir).
			WithHint("name the folder that `make release` made, or give --version to legwork release sign").WithCause(err)
	}
	if s.version != "" {
		m.Version = s.version
	}
	if m.Channel, err = rel.ChannelOf(m.Version); err != nil {
		return m, err
	}
	if s.channel != "" && s.channel != string(m.Channel) {
		hint := "candidates have versions such as 1.5.0-rc.1: build it with VERSION=1.5.0-rc.1 make release"
		if m.Channel == rel.Candidate {
			stable, _, _ := strings.Cut(m.Version, "-")
			hint = fmt.Sprintf("a stable version has no part after a dash: build it with VERSION=%s make release, or say --channel candidate", stable)
		}
		return m, fault.New(fault.Invalid, "release_channel", "version %s is one of the channel %s, not %s", m.Version, m.Channel, s.channel).WithHint("%s", hint)
	}
	if s.at != "" {
		if m.At, err = time.Parse(time.RFC3339, s.at); err != nil {
			return m, fault.New(fault.Invalid, "usage", "--at %q is no time", s.at).WithHint("write it as 2026-01-31T12:00:00Z")
		}
	}
	if s.notes != "" {
		notes, err := os.ReadFile(s.notes)
		if err != nil {
			return m, fault.New(fault.Invalid, "release_notes", "the release notes %s cannot be read", s.notes).WithHint("name a Markdown file").WithCause(err)
		}
		m.Notes = string(notes)
	}
	m.Assets, err = rel.Collect(s.dir, m.Version)
	return m, err
}

// write makes the manifest anew and signs it; without a key it stays unsigned.
func (s *signing) write(password string) (rel.Manifest, error) {
	m, err := s.manifest()
	if err != nil {
		return m, err
	}
	text, err := m.Marshal()
	if err != nil {
		return m, err
	}
	var signature []byte
	if s.key != "" {
		private, err := os.ReadFile(s.key)
		if err != nil {
			return m, fault.New(fault.Invalid, "release_private_key", "the private key %s cannot be read", s.key).
				WithHint("make one with legwork release keygen").WithCause(err)
		}
		if signature, _, err = rel.Sign(text, private, password); err != nil {
			return m, err
		}
	}
	signatureFile := filepath.Join(s.dir, rel.SignatureName)
	if err := os.Remove(signatureFile); err != nil && !errors.Is(err, fs.ErrNotExist) { // never an old one beside a new manifest
		return m, err
	}
	if err := os.WriteFile(filepath.Join(s.dir, rel.ManifestName), text, 0o644); err != nil || signature == nil {
		return m, err
	}
	return m, os.WriteFile(signatureFile, signature, 0o644)
}

func (a *app) releaseSign() *cobra.Command {
	s := &signing{}
	cmd := &cobra.Command{
		Use: "sign PATH", Short: "Make the manifest of the files in a folder, and sign it", Args: exactly("PATH"),
		Long: "Make the manifest of the files in a folder, and sign it with a key of minisign. Without a key the manifest alone is made, and stays unsigned.",
		RunE: func(_ *cobra.Command, args []string) error {
			s.dir = args[0]
			m, err := s.write(a.Env(releasePasswordVariable))
			if err != nil {
				return err
			}
			state := "signed"
			if s.key == "" {
				state = "not signed: there is no key"
			}
			fmt.Fprintf(a.Out, "%s: %s %s, %d assets, %s\n", filepath.Join(s.dir, rel.ManifestName), m.Channel, m.Version, len(m.Assets), state)
			return nil
		},
	}
	s.flags(a, cmd)
	cmd.Flags().StringVar(&s.version, "version", "", "of the release (default: that of the manifest which is there)")
	cmd.Flags().StringVar(&s.at, "at", "", "time of the commit that it was built from")
	return cmd
}

func (a *app) releasePublish() *cobra.Command {
	s := &signing{}
	cmd := a.withFormat(&cobra.Command{
		Use: "publish PATH", Short: "Publish the release in a folder that make release made", Args: exactly("PATH"),
		Long: "Publish the release in a folder that make release made: its signed manifest, then its files, then all of it. What broke off is ended by\n" +
			"running it again. With --notes the manifest is made anew, which takes the private key.",
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s.dir = args[0]
		if s.notes != "" {
			if s.key == "" {
				return fault.New(fault.Invalid, "usage", "--notes needs --key: the notes are signed, too").WithHint("name the private key, or give the notes to make release")
			}
			if _, err := s.write(a.Env(releasePasswordVariable)); err != nil {
				return err
			}
		}
		client, err := a.client()
		if err != nil {
			return err
		}
		r, err := a.publish(cmd.Context(), client, s)
		if err != nil {
			return err
		}
		return a.show(r, func() *table { return releaseTable(r) })
	}
	s.flags(a, cmd)
	return cmd
}

// publish sends a release. The files are held against the manifest before anything is sent.
func (a *app) publish(ctx context.Context, client *api.Client, s *signing) (r api.Release, err error) {
	m, err := s.manifest()
	if err != nil {
		return r, err
	}
	text, err := os.ReadFile(filepath.Join(s.dir, rel.ManifestName))
	if err != nil {
		return r, err
	}
	signature, err := os.ReadFile(filepath.Join(s.dir, rel.SignatureName))
	if err != nil {
		return r, fault.New(fault.Invalid, "release_unsigned", "the release in %s is not signed", s.dir).
			WithHint("sign it: legwork release sign %s --key FILE", s.dir).WithCause(err)
	}
	signed, err := rel.Parse(text)
	if err != nil {
		return r, err
	}
	for _, asset := range signed.Assets {
		there, ok := m.Asset(asset.Name)
		if !ok {
			return r, fault.New(fault.Invalid, "release_file_missing", "%s is missing: the manifest names it", filepath.Join(s.dir, asset.Name)).
				WithHint("copy the whole folder that make release made, or build it again")
		}
		if there != asset {
			return r, fault.New(fault.Invalid, "release_digest", "%s is not what the manifest says", filepath.Join(s.dir, asset.Name)).
				WithHint("the folder was changed after signing: build it again")
		}
	}
	if _, err = client.DraftRelease(ctx, text, signature); fault.Code(err) == "release_exists" {
		return a.publishedBefore(ctx, client, signed, err)
	} else if err != nil {
		return r, err
	}
	for _, asset := range signed.Assets {
		fmt.Fprintf(a.Err, "sending %s (%d bytes)\n", asset.Name, asset.Size)
		if err := sendAsset(ctx, client, s.dir, signed.Version, asset); err != nil {
			return r, err
		}
	}
	return client.PublishRelease(ctx, signed.Version)
}

// publishedBefore gives the release that is published already when it is the very one that is sent now: somebody did it before, or the last
// answer was lost. Of any other it gives the refusal.
func (a *app) publishedBefore(ctx context.Context, client *api.Client, signed rel.Manifest, refusal error) (api.Release, error) {
	r, err := releaseNamed(ctx, client, signed.Version)
	if err != nil {
		return r, errors.Join(refusal, err)
	}
	same := r.State == "published" && r.Notes == signed.Notes && slices.EqualFunc(r.Assets, signed.Assets,
		func(there api.ReleaseAsset, here rel.Asset) bool { return there == api.ReleaseAsset(here) })
	if !same {
		return api.Release{}, refusal
	}
	fmt.Fprintf(a.Err, "%s was published already, and is the same.\n", signed.Version)
	return r, nil
}

func sendAsset(ctx context.Context, client *api.Client, dir, version string, asset rel.Asset) error {
	f, err := os.Open(filepath.Join(dir, asset.Name))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // the request may have closed it
	return client.PutReleaseAsset(ctx, version, asset.Name, asset.Size, f)
}

func releaseTable(r api.Release) *table {
	t := &table{}
	t.add("version", r.Version)
	t.add("channel", r.Channel)
	t.add("state", r.State)
	if !r.PublishedAt.IsZero() {
		t.add("published", r.PublishedAt.Local().Format(time.DateTime)+" by "+r.PublishedBy)
	}
	for _, asset := range r.Assets {
		t.add("asset", fmt.Sprintf("%s (%d bytes)", asset.Name, asset.Size))
	}
	return t
}

func (a *app) releaseList() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "list", Short: "List releases, newest first", Args: exactly(), Aliases: []string{"ls"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			all, err := client.Releases(cmd.Context())
			if err != nil {
				return err
			}
			return a.show(all, func() *table {
				t := &table{head: []string{"VERSION", "CHANNEL", "STATE", "PUBLISHED", "BY", "ASSETS"}}
				for _, r := range all {
					t.add(r.Version, r.Channel, r.State, since(r.PublishedAt, time.Now()), r.PublishedBy, fmt.Sprint(len(r.Assets)))
				}
				return t
			})
		},
	})
}

func (a *app) releaseShow() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "show VERSION", Short: "Show one release with its notes; latest is the newest stable one", Args: exactly("VERSION"), ValidArgsFunction: a.completeReleases,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			r, err := releaseNamed(cmd.Context(), client, args[0])
			if err != nil {
				return err
			}
			if err := a.show(r, func() *table { return releaseTable(r) }); err != nil || a.format != asTable || r.Notes == "" {
				return err
			}
			fmt.Fprintln(a.Out)
			for line := range strings.Lines(strings.TrimSpace(r.Notes)) {
				fmt.Fprintln(a.Out, clean(strings.TrimRight(strings.ReplaceAll(line, "\t", "    "), "\r\n")))
			}
			return nil
		},
	})
}

// releaseNamed finds a release in the listing.
func releaseNamed(ctx context.Context, client *api.Client, version string) (api.Release, error) {
	all, err := client.Releases(ctx)
	if err != nil {
		return api.Release{}, err
	}
	for _, r := range all { // the newest first
		latest := version == "latest" && r.State == "published" && r.Channel == string(rel.Stable)
		if latest || rel.Compare(r.Version, version) == 0 {
			return r, nil
		}
	}
	if version == "latest" {
		return api.Release{}, fault.New(fault.NotFound, "release_not_found", "there is no stable release yet").WithHint("`legwork release publish` makes one")
	}
	return api.Release{}, fault.New(fault.NotFound, "release_not_found", "there is no release %q", version).WithHint("see: legwork release list")
}

func (a *app) releaseWithdraw() *cobra.Command {
	return a.withFormat(&cobra.Command{
		Use: "withdraw VERSION", Short: "Have nobody update to a release any more; its bytes are deleted", Args: exactly("VERSION"), ValidArgsFunction: a.completeReleases,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			r, err := client.WithdrawRelease(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.show(r, func() *table { return releaseTable(r) })
		},
	})
}

func (a *app) completeReleases(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.names(cmd, func(ctx context.Context, client *api.Client) ([]string, error) {
		all, err := client.Releases(ctx)
		names := make([]string, len(all))
		for i, r := range all {
			names[i] = r.Version + "\t" + r.State
		}
		return names, err
	})
}
