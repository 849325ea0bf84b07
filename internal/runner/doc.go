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
//	  instance.key                makes this folder this Instance, mode 0600. A copy of the folder makes its own
//	  jobs.copied/                the journals of the instance that this folder was copied from, kept for a look
//	  keeper/                     the keeper's socket, lock and log
//	  modules/<module id>/        the Module's source and local state, kept from Job to Job
//	  mirrors/, cache/            git mirrors and provider caches, shared by all Modules
//	  jobs/<job>.<attempt>/       one Attempt, mode 0700, gone once the Server has dropped it
//	    journal                   what it is, which Steps have begun and how they ended, in lines of
//	                              JSON. No values of Inputs, and no result that holds outputs: after a
//	                              restart those are read again
//	    NN-<step>.spool           the log of a Step
//	    NN-<step>.<command>.start, .exit   the keeper's records of its commands
//	TempDirectory/<n>/            scratch folder of a Job, emptied between Jobs
//
// The fault these files stand is the death of a process, for which no fsync is needed. One exception: that an
// apply or a destroy has begun is forced to the disk before its command starts, so that a host that
// lost power does not begin it a second time. A script is not worth that wait: when its host is
// lost, the Server has the Job begin anew in any case.
package runner
