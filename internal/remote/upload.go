package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"legwork/internal/fault"
)

// Upload writes what from gives into a file on target, by SFTP as the login user. The file is written beside path and takes
// its place at the end: there is never half of it under that name. The fault is upload_failed, or one of the connection.
func (p *Pool) Upload(ctx context.Context, target Target, path string, mode fs.FileMode, from io.Reader) error {
	conn, err := p.connect(ctx, p.hops(target))
	if err != nil {
		return err
	}
	defer p.release(conn)
	channel, requests, done, err := p.openSession(ctx, conn)
	if err != nil {
		if ctx.Err() == nil {
			err = connectFault(target, "opening a session", err)
		}
		return err
	}
	defer done()
	go ssh.DiscardRequests(requests)
	stop := context.AfterFunc(ctx, done)
	defer stop()
	if err := upload(channel, path, mode, from); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("putting %s on %s: %w", path, target.label(), context.Cause(ctx))
		}
		return fault.New(fault.Failed, "upload_failed", "%s cannot be written on %s: %s", path, target.label(), uploadReason(err)).
			WithHint("check that the folder exists there, that the login user may write in it, and that its sshd has SFTP").WithCause(err)
	}
	return nil
}

var errNoSFTP = errors.New("its sshd has no SFTP")

func uploadReason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such folder"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	}
	return printable(err.Error())
}

func upload(channel ssh.Channel, path string, mode fs.FileMode, from io.Reader) (err error) {
	ok, err := channel.SendRequest("subsystem", true, ssh.Marshal(struct{ Name string }{"sftp"}))
	if err == nil && !ok {
		err = errNoSFTP
	}
	if err != nil {
		return err
	}
	client, err := sftp.NewClientPipe(channel, channel)
	if err != nil {
		return fmt.Errorf("starting SFTP: %w", err)
	}
	defer client.Close()
	beside := path + ".legwork-" + randomName()
	file, err := client.Create(beside)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = client.Remove(beside)
		}
	}()
	err = file.Chmod(mode.Perm()) // before the content: it may be secret
	if err == nil {
		_, err = file.ReadFrom(from)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	err = client.PosixRename(beside, path)
	var status *sftp.StatusError
	if errors.As(err, &status) && status.FxCode() == sftp.ErrSSHFxOpUnsupported {
		_ = client.Remove(path) // without the extension a rename does not replace
		err = client.Rename(beside, path)
	}
	return err
}
