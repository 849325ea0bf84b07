package api

// Unconditional reports whether an operation takes no If-Match, for a reason that the table names.
func Unconditional(operation string) bool { return unconditional[operation] != "" }
