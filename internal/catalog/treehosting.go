package catalog

// hosting checks what hosted Runners name: they are launched through one that somebody starts.
func (t *tree) hosting(d Declared[RunnerSpec]) {
	h := d.Spec.Hosting
	if h == nil {
		return
	}
	t.hostingIdentity(d, *h)
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

// hostingIdentity checks as whom a launcher works: an identity that is there, and that knows a region where the Runner does not.
func (t *tree) hostingIdentity(d Declared[RunnerSpec], h Hosting) {
	const field = "hosting.cloud_identity"
	if h.CloudIdentity == "" || !exists(t, d.At(field), field, KindCloudIdentity, h.CloudIdentity, t.cloudIdentities) {
		return
	}
	if h.Launcher == LaunchECS && h.Region == "" && t.cloudIdentities[h.CloudIdentity].Region == "" {
		t.add(d.At(field), "hosting.region", "is missing: launcher ecs wants one, and the cloud identity %s has none either", brief(h.CloudIdentity))
	}
}
