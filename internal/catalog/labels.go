package catalog

// Matches tells whether the labels of an Instance of a Runner are those that are wanted: its own, and those of the Runner's record where
// it says nothing.
func (r Runner) Matches(want, own map[string]string) bool {
	for k, v := range want {
		have, ok := own[k]
		if !ok {
			have, ok = r.Labels[k]
		}
		if !ok || have != v {
			return false
		}
	}
	return true
}
