package payclient

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"bardo.money/gateway/cmd/bardo/cli"
)

// asCommand has the test's program be `bardo pay`, so that tests can run it as a process of its own, and kill it.
const asCommand = "BARDO_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c := Command()
	c.SilenceUsage, c.SilenceErrors = true, true
	c.SetArgs(os.Args[1:])
	err := c.ExecuteContext(ctx)
	if code, ok := errors.AsType[cli.Exit](err); ok {
		os.Exit(int(code)) //nolint:gocritic // the process ends
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bardo:", err)
		os.Exit(1)
	}
}
