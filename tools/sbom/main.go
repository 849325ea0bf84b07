// Command sbom writes what a Go program is made of, as it says itself (debug/buildinfo), in CycloneDX:
//
//	sbom VERSION FILE >FILE.cdx.json
//
// The time in it is SOURCE_DATE_EPOCH, so that the same program has the same list each time.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: sbom VERSION FILE")
	}
	version, file := args[0], args[1]
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return errors.New("SOURCE_DATE_EPOCH is not set to seconds since 1970")
	}
	encoder := cyclonedx.NewBOMEncoder(os.Stdout, cyclonedx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	return encoder.Encode(bomOf(info, version, filepath.Base(file), sha256.Sum256(content), time.Unix(epoch, 0)))
}

func bomOf(info *debug.BuildInfo, version, name string, sum [32]byte, at time.Time) *cyclonedx.BOM {
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = serial(sum)
	own := cyclonedx.Component{
		BOMRef: "pkg:golang/" + info.Main.Path + "@" + version, Type: cyclonedx.ComponentTypeApplication, Name: info.Main.Path, Version: version,
		Description: name, Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
	}
	var settings []cyclonedx.Property
	for _, s := range info.Settings {
		if s.Key == "GOOS" || s.Key == "GOARCH" || s.Key == "CGO_ENABLED" || s.Key == "-trimpath" {
			settings = append(settings, cyclonedx.Property{Name: "go:build:" + s.Key, Value: s.Value})
		}
	}
	own.Properties = &settings
	bom.Metadata = &cyclonedx.Metadata{Timestamp: at.UTC().Format(time.RFC3339), Component: &own}

	standard := cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion, PackageURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}
	standard.BOMRef = standard.PackageURL
	components := []cyclonedx.Component{standard}
	refs := []string{standard.BOMRef}
	for _, module := range info.Deps {
		c := componentOf(module)
		components, refs = append(components, c), append(refs, c.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: own.BOMRef, Dependencies: &refs}}
	return bom
}

func componentOf(m *debug.Module) cyclonedx.Component {
	if m.Replace != nil {
		m = m.Replace
	}
	url := "pkg:golang/" + m.Path + "@" + m.Version + "?type=module"
	c := cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: url, Scope: cyclonedx.ScopeRequired}
	if m.Sum != "" { // of the folder and not of a file, so that it is no hash of CycloneDX: golang.org/x/mod/sumdb/dirhash
		c.Properties = &[]cyclonedx.Property{{Name: "go:module:sum", Value: m.Sum}}
	}
	return c
}

// serial makes a UUID of version 8 (RFC 9562) out of a digest.
func serial(sum [32]byte) string {
	b := sum[:16]
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
