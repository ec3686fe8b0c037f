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

// Kinds are the kinds of providers that configurations may name. cmd/bardo/parts sets them before anything is read; they do not change.
var Kinds []kind.Kind

// Flag adds -c to a command.
func Flag(c *cobra.Command) {
	c.Flags().StringP("config", "c", "", "configuration file, YAML or TOML (default config.yaml, config.toml or bardo.toml in $BARDO_HOME, or bardo.toml here)")
	_ = c.MarkFlagFilename("config", "yaml", "yml", "toml") // fails only for a flag that is not there
}

// find is the file that is read without -c; "" when there is none.
func find(h home.Dir) string {
	for _, p := range []string{h.Path("config.yaml"), h.Path("config.toml"), h.Path("bardo.toml"), "bardo.toml"} {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	return ""
}

// Load reads and validates a configuration; "" is the built-in one. Problems are printed to w, warnings included. A
// configuration with errors is refused with exit status 2.
func Load(path string, w io.Writer) (*config.Config, error) {
	data, err := Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data, w)
}

// Parse does what Load does, with what was read.
func Parse(path string, data []byte, w io.Writer) (*config.Config, error) {
	cfg, problems := config.Parse(cmp.Or(path, "bardo.yaml"), data, os.LookupEnv, Kinds...)
	for _, p := range problems {
		_, _ = fmt.Fprintln(w, p) // nowhere to report a broken terminal to
	}
	if config.Failed(problems) {
		return nil, cli.Exit(2)
	}
	return cfg, nil
}

// ForCommand loads the configuration of a command with -c. Without it, that is the one of the gateway that runs, or of the control plane that runs alone.
func ForCommand(c *cobra.Command, h home.Dir) (*config.Config, string, error) {
	if c.Flags().Changed("config") {
		return ForStart(c, h)
	}
	r, ok := h.Answering(c.Context())
	if !ok {
		r, ok = h.AnsweringAs(c.Context(), home.PlaneFile)
	}
	if !ok {
		return ForStart(c, h)
	}
	cfg, err := Load(r.Config, c.ErrOrStderr())
	return cfg, r.Config, err
}

// ForStart loads the configuration of a command that starts something: another gateway's is not its own.
func ForStart(c *cobra.Command, h home.Dir) (*config.Config, string, error) {
	cfg, f, err := Starting(c, h)
	return cfg, f.Path, err
}

// Starting is ForStart, with the file as it was read: a change after that is noticed.
func Starting(c *cobra.Command, h home.Dir) (*config.Config, File, error) {
	path, err := configHere(c, h)
	if err != nil {
		return nil, File{}, err
	}
	f, err := readResting(c.Context(), path)
	if err != nil {
		return nil, f, err
	}
	cfg, err := Parse(path, f.Data, c.ErrOrStderr())
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
