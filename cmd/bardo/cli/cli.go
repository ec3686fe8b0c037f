// Package cli is what all commands share: flags, checks of arguments, output for people and for programs, and exit statuses.
package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Version is stamped by the build.
var Version = "dev"

// Exit carries a command's exit status; its message was printed already.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Group is a command that only holds others. Alone it prints its help; what is none of its commands is a mistake.
func Group(use, short string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
}
