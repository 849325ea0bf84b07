package boot

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"legwork/internal/access"
	"legwork/internal/cli"
	"legwork/internal/control"
	"legwork/internal/store"
)

// rotateKey gives the database of a Server a new master key or, with data, a new data key, with which everything is sealed anew. The master
// key stays the same then: Servers on other hosts have copies of its file, and need it to open what is sealed anew.
func rotateKey(ctx context.Context, o cli.StartOptions, data bool, out io.Writer) error {
	settings, err := LoadServerSettings(layers(o))
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, databaseOf(settings), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer st.Close()
	file := masterKeyOf(settings)
	if data {
		return sealAnew(ctx, st, file, out)
	}
	if err := access.RotateMaster(ctx, st, file); err != nil {
		return err
	}
	fmt.Fprintf(out, "The master key in %s is a new one. Copy the file to the hosts of other Servers now: with the old one they do not start,\n"+
		"and running servers cannot open anything sealed with a new data key, which --data makes.\n", file.Path)
	return nil
}

// resetAdminToken gives the admin of a Server a new token.
func resetAdminToken(ctx context.Context, o cli.StartOptions, out io.Writer) error {
	settings, err := LoadServerSettings(layers(o))
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, databaseOf(settings), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer st.Close()
	path, err := access.ResetAdminToken(ctx, st, settings.Data)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "The new admin token is in %s. The old one does not work any more. The file is removed when the token is used for the first time.\n", path)
	return nil
}

// sealAnew makes a new data key, and seals everything with it.
func sealAnew(ctx context.Context, st *store.Store, file access.MasterKeyFile, out io.Writer) error {
	keys, err := access.RotateData(ctx, st, file)
	if err != nil {
		return err
	}
	told := 0
	n, err := control.Reseal(ctx, st, keys, func(values int) {
		if values >= told+1000 {
			told = values
			fmt.Fprintf(out, "%d values are sealed anew.\n", values)
		}
	})
	if err != nil {
		return err
	}
	if err := keys.RetireOthers(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "A new data key seals from now on; %d values were sealed anew with it. The master key is the same.\n", n)
	return nil
}
