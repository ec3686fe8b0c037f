// Package cli is shared by all commands: flags, argument checks, output for people and programs, and exit statuses.
package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Version is stamped by the build.
var Version = "dev"

// Exit is a command's exit status; its message has been printed already.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Group is a command that only has subcommands. Without one it prints its help.
func Group(use, short string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
}
