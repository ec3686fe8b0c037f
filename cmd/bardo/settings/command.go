package settings

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/kind"
)

// Kinds are the kinds of providers that configurations may name. cmd/bardo/parts sets them at initialisation; they do not change.
var Kinds []kind.Kind

// Flag adds -c to a command.
func Flag(c *cobra.Command) {
	c.Flags().StringP("config", "c", "", "configuration file, YAML or TOML (default config.yaml, config.toml or bardo.toml in $BARDO_HOME, or bardo.toml here)")
	_ = c.MarkFlagFilename("config", "yaml", "yml", "toml") // fails only for an unknown flag
}

// find returns the default configuration file; "" if there is none.
func find(h home.Dir) string {
	for _, p := range []string{h.Path("config.yaml"), h.Path("config.toml"), h.Path("bardo.toml"), "bardo.toml"} {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	return ""
}

// Parse parses and validates a configuration; path "" is the built-in one. Problems, including warnings, are printed to w. A configuration with errors returns
// exit status 2.
func Parse(path string, data []byte, w io.Writer) (*config.Config, error) {
	return parse(path, data, w, true)
}

// noFile is the file name for the built-in configuration: config.Parse chooses YAML or TOML by the name.
const noFile = "bardo.yaml"

// parse is Parse, optionally without warnings.
func parse(path string, data []byte, w io.Writer, warnings bool) (*config.Config, error) {
	cfg, problems := config.Parse(cmp.Or(path, noFile), data, os.LookupEnv, Kinds...)
	for _, p := range problems {
		if p.Warning && !warnings {
			continue
		}
		if path == "" && p.File == noFile {
			p.File, p.Line = "built-in configuration", 0
		}
		_, _ = fmt.Fprintln(w, p) // nowhere to report a broken terminal to
	}
	if config.Failed(problems) {
		return nil, cli.Exit(2)
	}
	return cfg, nil
}

// ForCommand loads the configuration of a command with -c. Without it, that is the configuration of the running gateway, or of a control plane that runs alone.
// Warnings are not printed: the start and `bardo config check` print them.
func ForCommand(c *cobra.Command, h home.Dir) (*config.Config, string, error) {
	return ofCommand(c, h, c.Flags().Changed("config"))
}

// ForCheck is ForCommand for a command that checks the configuration: warnings are printed too.
func ForCheck(c *cobra.Command, h home.Dir) (*config.Config, string, error) {
	return ofCommand(c, h, true)
}

func ofCommand(c *cobra.Command, h home.Dir, warnings bool) (*config.Config, string, error) {
	if c.Flags().Changed("config") {
		return ForStart(c, h)
	}
	r, ok := h.Answering(c.Context())
	if !ok {
		r, ok = h.AnsweringAs(c.Context(), home.PlaneFile)
	}
	if !ok {
		cfg, f, err := starting(c, h, warnings)
		return cfg, f.Path, err
	}
	data, err := Read(r.Config)
	if err != nil {
		return nil, r.Config, err
	}
	cfg, err := parse(r.Config, data, c.ErrOrStderr(), warnings)
	return cfg, r.Config, err
}

// ForStart loads the configuration of a command that starts a process; that of a running gateway is not used.
func ForStart(c *cobra.Command, h home.Dir) (*config.Config, string, error) {
	cfg, f, err := Starting(c, h)
	return cfg, f.Path, err
}

// Starting is ForStart, and also returns the file as it was read, so that later changes can be detected.
func Starting(c *cobra.Command, h home.Dir) (*config.Config, File, error) {
	return starting(c, h, true)
}

func starting(c *cobra.Command, h home.Dir, warnings bool) (*config.Config, File, error) {
	path, err := configHere(c, h)
	if err != nil {
		return nil, File{}, err
	}
	f, err := readSettled(c.Context(), path)
	if err != nil {
		return nil, f, err
	}
	cfg, err := parse(path, f.Data, c.ErrOrStderr(), warnings)
	return cfg, f, err
}

// configHere is the path of a command's configuration file; "" if there is none.
func configHere(c *cobra.Command, h home.Dir) (string, error) {
	path, err := c.Flags().GetString("config")
	if err != nil {
		return "", err
	}
	if path == "" {
		path = find(h)
	}
	if path == "" {
		return "", nil
	}
	return filepath.Abs(path)
}
