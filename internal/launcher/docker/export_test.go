package docker

import (
	"context"
	"net"
	"time"

	"legwork/internal/launcher"
)

// Dialing makes a launcher whose connections fail in a way.
func Dialing(host launcher.Host, err error) launcher.Launcher {
	return &Launcher{host: host, silence: pullSilence, dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: err}
	}}
}

// Impatient makes a launcher that gives a silent pull up early.
func Impatient(host launcher.Host, silence time.Duration) launcher.Launcher {
	return &Launcher{host: host, silence: silence}
}
