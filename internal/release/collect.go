package release

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"legwork/internal/fault"
)

// Collect describes the files in a folder as the assets of a version, in the order of their names. What a file is stands in its name:
// legwork_1.4.0_linux_amd64 is a program, with .exe, too; .deb, .rpm and .cdx.json say the rest. Its fault is "release_folder".
func Collect(dir, version string) ([]Asset, error) {
	version, err := Canonical(version)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fault.New(fault.Invalid, "release_folder", "the folder %s cannot be read", dir).WithHint("name the folder that `make release` made").WithCause(err)
	}
	var assets []Asset
	for _, e := range entries {
		if e.Name() == ManifestName || e.Name() == SignatureName {
			continue
		}
		if !e.Type().IsRegular() || !ValidName(e.Name()) {
			return nil, fault.New(fault.Invalid, "release_folder", "%s in %s is no file of a release", short(e.Name()), dir).
				WithHint("a release is a folder of files that holds nothing else")
		}
		a := named(e.Name(), version)
		if a.Size, a.SHA256, err = digest(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
		assets = append(assets, a)
	}
	if !slices.ContainsFunc(assets, func(a Asset) bool { return a.Kind == Binary }) {
		return nil, fault.New(fault.Invalid, "release_folder", "there is no program of version %s in %s", version, dir).
			WithHint("it is called legwork_%s_linux_amd64, and so on: `make release` makes it", version)
	}
	return assets, nil
}

// named tells by its name what a file of a version is.
func named(name, version string) Asset {
	if name == "SHA256SUMS" {
		return Asset{Name: name, Kind: Sums}
	}
	a := Asset{Name: name, Kind: Other}
	rest, ours := strings.CutPrefix(name, "legwork_"+version+"_")
	if !ours {
		return a
	}
	kind, ends := Binary, map[string]string{".deb": Package, ".rpm": RPM, ".cdx.json": SBOM, ".exe": Binary}
	for end, k := range ends {
		if before, cut := strings.CutSuffix(rest, end); cut {
			rest, kind = before, k
		}
	}
	system, arch, both := strings.Cut(rest, "_")
	if both && goWord.MatchString(system) && goWord.MatchString(arch) {
		a.OS, a.Arch, a.Kind = system, arch, kind
	}
	return a
}

func digest(path string) (size int64, sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", fmt.Errorf("read an asset: %w", err)
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return 0, "", fmt.Errorf("read an asset: %w", err)
	}
	return size, hex.EncodeToString(h.Sum(nil)), nil
}
