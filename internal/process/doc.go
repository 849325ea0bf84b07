// Package process starts commands and outlives its caller.
//
// A Runner asks a keeper, a detached process of its own session, to start the commands of its
// Steps. The keeper puts each command into a process group of its own, masks secrets in what it
// prints, splits that into log records, appends them to the Step's spool, drives the ladder of
// signals that ends a command, and leaves an exit record behind. When the Runner dies, all of this
// goes on; the next Runner connects to the same keeper and finds everything where it was.
//
//	Spool, Reader   the log of one Step as an append-only file
//	Masker, Output  bytes of a stream -> masked -> lines -> records
//	RunKeeper       the detached process
//	Client          the Runner's end of the keeper's socket
//	FindOrphan      what is left of a command whose keeper was killed
//	Spares          files that are used again, which costs less than new ones
//
// Three files tell about one command, and none of them holds an argument, an environment or a
// secret: the spool, the start record (written before the command starts, so that a command is
// never started twice) and the exit record (written after everything it printed is in the spool).
package process
