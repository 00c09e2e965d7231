package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/quorate/quorate/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
