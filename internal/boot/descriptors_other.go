//go:build !unix

package boot

// maxOpenFiles returns how many files this process may have open, 0 when that is unknown.
func maxOpenFiles() int { return 0 }
