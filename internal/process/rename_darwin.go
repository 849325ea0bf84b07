package process

import "golang.org/x/sys/unix"

// renameNew renames a file and fails when there is one of the new name.
func renameNew(from, to string) error { return unix.RenamexNp(from, to, unix.RENAME_EXCL) }
