package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// NoArgs wants no argument. One that a group of commands is given is meant as one of them.
func NoArgs(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case c.Flags().Lookup("config") != nil && slices.Contains([]string{".yaml", ".yml", ".toml"}, filepath.Ext(args[0])):
		return fmt.Errorf("%s takes no argument, and was given %q: name a configuration file with -c", c.CommandPath(), args[0])
	case !c.HasSubCommands():
		return fmt.Errorf("%s takes no argument, and was given %q; --help lists its flags", c.CommandPath(), args[0])
	}
	var names []string
	for _, sub := range c.Commands() {
		names = append(names, sub.Name())
	}
	c.SuggestionsMinimumDistance = 2 // cobra's own
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("%s has no command %q; did you mean %s?", c.CommandPath(), args[0], strings.Join(near, " or "))
	}
	return fmt.Errorf("%s has no command %q, expected %s", c.CommandPath(), args[0], strings.Join(names, ", "))
}

// SomeArgs wants at least one argument.
func SomeArgs(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s takes %s, and was given none; --help shows an example", c.CommandPath(), what)
		}
		return nil
	}
}

// AtMostOneArg wants one argument or none.
func AtMostOneArg(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("%s takes at most one argument, %s, and was given %d; --help lists its flags", c.CommandPath(), what, len(args))
		}
		return nil
	}
}

// OneArg wants one argument.
func OneArg(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%s takes one argument, %s, and was given %d; --help lists its flags", c.CommandPath(), what, len(args))
		}
		return nil
	}
}
