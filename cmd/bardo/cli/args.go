package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// NameMissingFlags makes a command and its subcommands report missing required flags by name, before arguments are checked: cobra's own error does not mention
// --help.
func NameMissingFlags(c *cobra.Command) {
	if args := c.Args; c.Runnable() {
		c.Args = func(c *cobra.Command, given []string) error {
			if args != nil {
				if err := args(c, given); err != nil {
					return err
				}
			}
			return missingFlags(c)
		}
	}
	for _, sub := range c.Commands() {
		NameMissingFlags(sub)
	}
}

func missingFlags(c *cobra.Command) error {
	var missing []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if len(f.Annotations[cobra.BashCompOneRequiredFlag]) > 0 && !f.Changed {
			missing = append(missing, "--"+f.Name)
		}
	})
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s needs %s; --help shows an example", c.CommandPath(), strings.Join(missing, " and "))
}

// NoArgs accepts no argument. An argument of a command group is reported as an unknown command.
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
	c.SuggestionsMinimumDistance = 2 // as in cobra
	near := c.SuggestionsFor(args[0])
	for _, group := range c.Commands() {
		for _, sub := range group.Commands() {
			if sub.Name() == args[0] {
				near = append(near, group.Name()+" "+sub.Name())
			}
		}
	}
	if len(near) > 0 {
		return fmt.Errorf("%s has no command %q; did you mean %s?", c.CommandPath(), args[0], strings.Join(near, " or "))
	}
	return fmt.Errorf("%s has no command %q, expected %s", c.CommandPath(), args[0], strings.Join(names, ", "))
}

// SomeArgs requires at least one argument.
func SomeArgs(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s takes %s, and was given none; --help shows an example", c.CommandPath(), what)
		}
		return nil
	}
}

// AtMostOneArg accepts one argument or none.
func AtMostOneArg(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("%s takes at most one argument, %s, and was given %d; --help lists its flags", c.CommandPath(), what, len(args))
		}
		return nil
	}
}

// OneArg requires one argument.
func OneArg(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%s takes one argument, %s, and was given %d; --help lists its flags", c.CommandPath(), what, len(args))
		}
		return nil
	}
}
