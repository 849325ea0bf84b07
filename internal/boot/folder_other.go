//go:build !unix

package boot

// folderNumber returns 0: there is no number that a copy of the folder does not have.
func folderNumber(string) uint64 { return 0 }
