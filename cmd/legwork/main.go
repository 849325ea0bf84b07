// Command legwork is Server, Runner and command line in one.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // schedules have time zones, and a bare container has no table of them; 0.4 MB

	"legwork/internal/boot"
	"legwork/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(cli.Run(ctx, cli.System(), boot.Programs(), os.Args[1:]))
}
