package web

import (
	"strings"

	"legwork/internal/control"
	"legwork/internal/release"
)

// installValues are what the command is filled with that fetches the program of the newest stable release. The digests are those of the manifest
// whose signature this Server has verified.
type installValues struct {
	Server, Version string
	Programs        []program
}

// program is an asset of a release for one kind of host, as uname -sm says it.
type program struct{ Host, Name, SHA256 string }

// unameOf says a platform as uname -sm does, "" where that cannot run a shell.
var unameOf = map[string][]string{
	"linux/amd64": {"Linux x86_64"}, "linux/arm64": {"Linux aarch64", "Linux arm64"}, "darwin/amd64": {"Darwin x86_64"}, "darwin/arm64": {"Darwin arm64"},
}

// installCommand fetches and installs the program, "" where no release is published that has one.
func (v *visit) installCommand() (string, error) {
	all, err := v.Control.Releases(v.ctx, v.actor)
	if err != nil {
		return "", err
	}
	newest, ok := newestStable(all)
	if !ok {
		return "", nil
	}
	values := installValues{Server: v.serverURL(), Version: newest.Version}
	for _, a := range newest.Assets {
		for _, host := range unameOf[a.OS+"/"+a.Arch] {
			if a.Kind == "binary" && release.ValidName(a.Name) {
				values.Programs = append(values.Programs, program{host, a.Name, a.SHA256})
			}
		}
	}
	if len(values.Programs) == 0 {
		return "", nil
	}
	return installText(values), nil
}

// newestStable gives the newest stable release that is published.
func newestStable(all []control.Release) (newest control.Release, ok bool) {
	for _, r := range all {
		if r.State == "published" && r.Channel == release.Stable && (!ok || release.Newer(r.Version, newest.Version)) {
			newest, ok = r, true
		}
	}
	return newest, ok
}

func installText(values installValues) string {
	var b strings.Builder
	if err := startTemplates.ExecuteTemplate(&b, "install.sh", values); err != nil {
		panic(err) // embedded: a defect that every test sees
	}
	return strings.TrimSuffix(b.String(), "\n")
}
