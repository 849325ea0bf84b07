package web

import (
	"time"

	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
	"legwork/internal/release"
)

func compareVersions(a, b control.Release) int { return release.Compare(a.Version, b.Version) }

// releaseMoods are the states of releases.
var releaseMoods = map[string]mood{
	"draft":     {"Draft", "dashed", "calm"},
	"published": {"Published", "check", "good"},
	"withdrawn": {"Withdrawn", "slash", "warn"},
}

const mostReleases = 50 // shown

// releasesPage lists the releases of this program that were published here.
func releasesPage() page {
	return page{path: "/releases", nav: "/runners", kinds: []string{"release."}, load: func(v *visit) (content, error) {
		all, err := v.Control.Releases(v.ctx, v.actor)
		if err != nil {
			return content{}, err
		}
		sorted := sortList(v, all,
			column[control.Release]{reversed + "version", compareVersions},
			column[control.Release]{"state", byText(func(r control.Release) string { return r.State })},
			column[control.Release]{"channel", byText(func(r control.Release) string { return string(r.Channel) })},
			column[control.Release]{"published", byTime(func(r control.Release) time.Time { return r.PublishedAt })},
			column[control.Release]{"by", byText(func(r control.Release) string { return r.PublishedBy })},
		)
		rows := []part{}
		for _, r := range first(all, mostReleases) {
			rows = append(rows, part{id: releaseID(r), body: releaseRow(v, r)})
		}
		return content{title: "Releases", crumbs: []crumb{{"Runners", "/runners"}}, body: releasesBody(v, all, sorted),
			parts: []part{{id: "releases", body: releaseRows(v, all), rows: rows}}}, nil
	}}
}

// releaseID names a release within a page.
func releaseID(r control.Release) string { return "release-" + r.Version }

// releaseNotesSheet shows the notes of every published release. There is nothing to do in it.
func releaseNotesSheet() sheet {
	return sheet{path: "/releases/notes", nav: "/runners", need: catalog.Read,
		show: func(v *visit, _ form) (sheetContent, error) {
			all, err := v.Control.Releases(v.ctx, v.actor)
			var published []control.Release
			for _, r := range all {
				if r.State == "published" {
					published = append(published, r)
				}
			}
			return sheetContent{"Release notes", releaseNotes(v, published)}, err
		},
		act: func(*visit, form) (outcome, error) { return outcome{next: "/releases"}, nil },
	}
}

// withdrawReleaseSheet has nobody update to a release any more. What lies below /releases/{version} is what Runners fetch.
func withdrawReleaseSheet() sheet {
	return sheet{path: "/withdraw-release/{version}", nav: "/runners", need: catalog.Administer,
		show: func(v *visit, f form) (sheetContent, error) {
			r, err := v.release()
			return sheetContent{"Withdraw " + r.Version + "?", withdrawForm(r, f)}, err
		},
		act: func(v *visit, _ form) (outcome, error) {
			r, err := v.release()
			if err == nil {
				_, err = v.Control.WithdrawRelease(v.ctx, v.actor, r.Version)
			}
			return outcome{next: "/releases", note: r.Version + " is withdrawn."}, err
		},
	}
}

// release gives the release that the address names.
func (v *visit) release() (control.Release, error) {
	all, err := v.Control.Releases(v.ctx, v.actor)
	if err != nil {
		return control.Release{}, err
	}
	for _, r := range all {
		if r.Version == v.request.PathValue("version") {
			return r, nil
		}
	}
	return control.Release{}, fault.New(fault.NotFound, "release_not_found", "there is no such release").WithHint("look at the list")
}

// programs lists the platforms that a release has a program for.
func programs(r control.Release) (all []string) {
	for _, a := range r.Assets {
		if a.Kind == "binary" {
			all = append(all, a.OS+"/"+a.Arch)
		}
	}
	return all
}
