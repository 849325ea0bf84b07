package source

import (
	"context"
	"fmt"
	"path"
	"strings"

	"legwork/internal/fault"
)

// The bounds of submodules.
const (
	maxDepth      = 8
	maxSubmodules = 200
)

func (g *git) openSubmodule(ctx context.Context, c *checkout, link, raw, commit string) (*checkout, error) {
	if g.mods++; g.mods > maxSubmodules {
		return nil, fault.New(fault.TooLarge, "source_too_large", "the source has more than %d submodules", maxSubmodules)
	}
	at, err := g.allowed(c.mirror.at.submodule(raw))
	if err != nil {
		return nil, fmt.Errorf("submodule %s: %w", link, err)
	}
	sub := &checkout{mirror: g.mirror(at), id: commit, at: path.Join(c.at, link)}
	if _, err := sub.mirror.pinned(ctx, commit, commit); err != nil {
		return nil, fmt.Errorf("submodule %s: %w", link, err)
	}
	c.below = append(c.below, sub)
	return sub, nil
}

// allowed refuses a location that nothing may come from.
func (g *git) allowed(at location, err error) (location, error) {
	if err == nil && g.Allow != nil {
		err = g.Allow(at.raw)
	}
	return at, err
}

// submodules reads .gitmodules, as text of the commit and never as settings: path -> URL.
func (c *checkout) submodules(ctx context.Context) (map[string]string, error) {
	out, err := c.mirror.local(ctx, "config", "--blob", c.id+":.gitmodules", "--null", "--list")
	if isGit(err) {
		return nil, nil // there is no .gitmodules
	}
	if err != nil {
		return nil, err
	}
	return parseSubmodules(out), nil
}

// parseSubmodules reads the output of git config --null --list for .gitmodules: path -> URL.
func parseSubmodules(out []byte) map[string]string {
	named := map[string]*struct{ path, url, update string }{}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		key, value, _ := strings.Cut(entry, "\n")
		name, ok := strings.CutPrefix(key, "submodule.")
		dot := strings.LastIndexByte(name, '.')
		if !ok || dot < 0 {
			continue
		}
		if named[name[:dot]] == nil {
			named[name[:dot]] = &struct{ path, url, update string }{}
		}
		switch s := named[name[:dot]]; name[dot+1:] {
		case "path":
			s.path = value
		case "url":
			s.url = value
		case "update":
			s.update = value
		}
	}
	urls := map[string]string{}
	for _, s := range named {
		if s.update != "none" && s.url != "" {
			urls[s.path] = s.url
		}
	}
	return urls
}
