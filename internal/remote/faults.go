package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"unicode"

	"golang.org/x/crypto/ssh"

	"legwork/internal/fault"
)

// connectFault gives the meaning of an error of dialing t or of the handshake with it.
func connectFault(t Target, stage string, err error) error {
	var f *fault.Fault
	if errors.As(err, &f) {
		return err
	}
	if isTimeout(err) {
		return fault.New(fault.Unavailable, "connect_timeout", "%s did not answer in time (%s)", t.label(), stage).
			WithHint("check the address, the port and the firewall between the Runner and the Node, or raise the connect timeout").WithCause(err)
	}
	return fault.New(fault.Unavailable, "host_unreachable", "%s cannot be reached: %s", t.label(), reason(err)).
		WithHint("check the address and the port, that sshd runs there, and that this host may connect to it").WithCause(err)
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// reason gives the innermost text of a network error, which says what happened and not where in this program.
func reason(err error) string {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return "its name cannot be resolved (" + dns.Err + ")"
	}
	var syscallError *os.SyscallError
	if errors.As(err, &syscallError) {
		return syscallError.Err.Error()
	}
	var refused *ssh.OpenChannelError
	if errors.As(err, &refused) {
		return "the host before it says: " + printable(refused.Message)
	}
	return printable(err.Error())
}

// printable shortens what a stranger said to one line that is safe to show.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "..."
	}
	return text
}

func lostFault(t Target, cause error) error {
	message := "the connection to " + t.label() + " was lost while the command ran: its outcome is unknown"
	if cause != nil {
		message = fmt.Sprintf("the connection to %s was lost while the command ran (%s): its outcome is unknown", t.label(), printable(cause.Error()))
	}
	return fault.New(fault.Failed, "connection_lost", "%s", message).
		WithHint("look on the Node whether the command is done, or mark the step repeatable if it may be done twice").WithCause(cause)
}

func silentFault(t Target, command Command) error {
	return fault.New(fault.Failed, "silence_timeout", "the command on %s printed nothing for %s", t.label(), command.SilenceTimeout).
		WithHint("let it print a sign of life, or raise the silence timeout")
}

func sudoFault(t Target, command Command, said string) error {
	f := fault.New(fault.Failed, "sudo_failed", "sudo to %s on %s failed: %s", command.sudoUser(), t.label(), said)
	if command.SudoPassword == "" {
		return f.WithHint("allow the login user to use sudo without a password (NOPASSWD), or name a sudo password")
	}
	return f.WithHint("check the sudo password and that the login user may use sudo there")
}

func commandFault(format string, args ...any) *fault.Fault {
	return fault.New(fault.Invalid, "command_invalid", format, args...)
}
