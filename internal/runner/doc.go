// Package runner is the Runner process: it dials its Server, takes Jobs, executes their Steps one after
// the other, and streams what they print back.
//
//	session     one WebSocket: hello, heartbeats, offers, Steps, acks; connects again for ever
//	job, step   what lies on this host of one Attempt; the way of one Step through its commands
//	shipper     sends the log of one Step out of its spool until all of it is acked
//	journal     the folder of each Attempt, from which a new process goes on where a killed one was
//
// Commands are not children of the Runner: a keeper (package process) starts them and writes what they
// print into the Step's spool. So the Runner may be killed at any moment: the next one reads the
// journal, finds the keeper again and goes on. What the Runner remembers on disk:
//
//	WorkingDirectory/
//	  runner.lock                 held by the one Runner process of this folder
//	  instance.key                makes this folder this Instance, mode 0600
//	  keeper/                     the keeper's socket, lock and log
//	  modules/<module id>/        the Module's source and local state, kept from Job to Job
//	  mirrors/, cache/            git mirrors and provider caches, shared by all Modules
//	  jobs/<job>.<attempt>/       one Attempt, mode 0700, gone once the Server has dropped it
//	    job.json                  what it is; no values of Inputs
//	    NN-<step>.begun           the Step has begun
//	    NN-<step>.spool           its log
//	    NN-<step>.<command>.start, .exit   the keeper's records of its commands
//	    NN-<step>.result          its result; not kept when it holds outputs, which are read again then
//
// The fault these files stand is the death of a process, for which no fsync is needed. One exception: a
// changing Step's begun file is forced to the disk before its first command starts, so that a
// host that lost power never does a change twice without anybody knowing.
package runner
