package apitest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"

	"legwork/internal/release"
)

// Publish signs and publishes a release with a program for each of some platforms, that of this host among them.
func (w *World) Publish(version, notes string) {
	w.T.Helper()
	ctx := context.Background()
	actor, err := w.Access.Authenticate(ctx, w.Token)
	w.Must(err)
	channel, err := release.ChannelOf(version)
	w.Must(err)
	m, programs := release.Manifest{Version: version, Channel: channel, Notes: notes}, map[string][]byte{}
	for _, p := range []release.Platform{release.Here(), {OS: "linux", Arch: "amd64"}, {OS: "linux", Arch: "arm64"}, {OS: "darwin", Arch: "arm64"}} {
		name := "legwork-" + p.OS + "-" + p.Arch
		if programs[name] != nil {
			continue
		}
		programs[name] = []byte("legwork " + version + " for " + p.String())
		sum := sha256.Sum256(programs[name])
		m.Assets = append(m.Assets, release.Asset{Name: name, OS: p.OS, Arch: p.Arch, Kind: "binary", Size: int64(len(programs[name])), SHA256: hex.EncodeToString(sum[:])})
	}
	manifest, err := m.Marshal()
	w.Must(err)
	signature, _, err := release.Sign(manifest, w.ReleaseKey, "")
	w.Must(err)
	_, err = w.Control.DraftRelease(ctx, actor, manifest, signature)
	w.Must(err)
	for name, program := range programs {
		w.Must(w.Control.PutReleaseAsset(ctx, actor, version, name, bytes.NewReader(program)))
	}
	_, err = w.Control.PublishRelease(ctx, actor, version)
	w.Must(err)
}
