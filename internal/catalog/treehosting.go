package catalog

// hosting checks what hosted Runners name: they are launched through one that somebody starts.
func (t *tree) hosting(d Declared[RunnerSpec]) {
	h := d.Spec.Hosting
	if h == nil {
		return
	}
	const field = "hosting.through"
	if h.Through != "" && exists(t, d.At(field), field, KindRunner, h.Through, t.runners) && t.runners[h.Through].Hosting != nil {
		t.add(d.At(field), field, "the Runner %s is hosted itself: name one that somebody starts, or none for the Server's own", brief(h.Through))
	}
	for _, name := range sortedKeys(t.runners) {
		other := t.runners[name]
		if other.Hosting == nil || other.Hosting.Through != d.Spec.Name || name == d.Spec.Name {
			continue
		}
		if _, too := byDeclared(t.manifest.Runners)[name]; !too { // said there
			t.add(d.At("hosting"), "hosting", "the Runner %s is launched through this one, which so cannot be hosted", brief(name))
		}
	}
}
