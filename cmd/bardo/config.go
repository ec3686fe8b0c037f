package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"bardo.money/gateway/internal/config"
)

// configFlag adds -c to a command.
func configFlag(c *cobra.Command) {
	c.Flags().StringP("config", "c", "", "configuration file, YAML or TOML (default config.yaml, config.toml or bardo.toml in $BARDO_HOME, or bardo.toml here)")
	_ = c.MarkFlagFilename("config", "yaml", "yml", "toml") // fails only for a flag that is not there
}

// findConfig is the file that is read without -c; "" when there is none.
func findConfig(h home) string {
	for _, p := range []string{h.path("config.yaml"), h.path("config.toml"), h.path("bardo.toml"), "bardo.toml"} {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	return ""
}

// loadConfig reads and validates a configuration; "" is the built-in one. Problems are printed to w, warnings included. A
// configuration with errors is refused with exit status 2.
func loadConfig(path string, w io.Writer) (*config.Config, error) {
	data, err := readConfig(path)
	if err != nil {
		return nil, err
	}
	return parseConfig(path, data, w)
}

// readConfig reads a configuration file.
func readConfig(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, advised{fmt.Errorf("configuration file %s does not exist", path), "name another one with -c"}
	}
	if err != nil {
		return nil, advised{fmt.Errorf("configuration file: %w", err), "name one that this user can read with -c"}
	}
	return data, nil
}

// parseConfig does what loadConfig does, with what was read.
func parseConfig(path string, data []byte, w io.Writer) (*config.Config, error) {
	cfg, problems := config.Parse(cmp.Or(path, "bardo.yaml"), data, os.LookupEnv)
	for _, p := range problems {
		_, _ = fmt.Fprintln(w, p) // nowhere to report a broken terminal to
	}
	if config.Failed(problems) {
		return nil, exitError(2)
	}
	return cfg, nil
}

// configured loads the configuration of a command with -c. Without it, that is the one of the gateway that runs.
func configured(c *cobra.Command, h home) (*config.Config, string, error) {
	if r, ok := h.answering(c.Context()); ok && !c.Flags().Changed("config") {
		cfg, err := loadConfig(r.Config, c.ErrOrStderr())
		return cfg, r.Config, err
	}
	return configuredHere(c, h)
}

// configuredHere loads the configuration of a command that starts something: another gateway's is not its own.
func configuredHere(c *cobra.Command, h home) (*config.Config, string, error) {
	cfg, f, err := startingConfig(c, h)
	return cfg, f.path, err
}

// startingConfig is configuredHere, with the file as it was read: a change after that is noticed.
func startingConfig(c *cobra.Command, h home) (*config.Config, configFile, error) {
	path, err := configHere(c, h)
	if err != nil {
		return nil, configFile{}, err
	}
	f, err := readRestingConfig(c.Context(), path)
	if err != nil {
		return nil, f, err
	}
	cfg, err := parseConfig(path, f.data, c.ErrOrStderr())
	return cfg, f, err
}

// configHere is the path of a command's configuration file; "" if there is none.
func configHere(c *cobra.Command, h home) (string, error) {
	path, err := c.Flags().GetString("config")
	if err != nil {
		return "", err
	}
	if path == "" {
		path = findConfig(h)
	}
	if path == "" {
		return "", nil
	}
	return filepath.Abs(path)
}

func configCommand() *cobra.Command {
	c := group("config", "Check, print or reload the configuration")
	check := &cobra.Command{
		Use: "check", Short: "Validate a configuration file", Args: noArgs,
		RunE: withConfig(func(c *cobra.Command, h home, cfg *config.Config, path string) error {
			name := path
			if path == "" {
				name = "built-in configuration"
			}
			warnOfProfiles(c.ErrOrStderr(), name, cfg)
			if !checkFiles(c.ErrOrStderr(), h, name, cfg) {
				return exitError(2)
			}
			if why := refusedByEnvoy(c.Context(), h, path); why != "" {
				_, _ = fmt.Fprintf(c.ErrOrStderr(), "%s: it has no mistakes, but in the running gateway %s\n", name, why) // nowhere to report a broken terminal to
				return exitError(2)
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), name+": ok")
			return err
		}),
	}
	show := &cobra.Command{
		Use: "print", Short: "Print the effective configuration, secrets masked", Args: noArgs,
		RunE: withConfig(func(c *cobra.Command, _ home, cfg *config.Config, _ string) error {
			_, err := c.OutOrStdout().Write(config.Print(cfg))
			return err
		}),
	}
	configFlag(check)
	configFlag(show)
	c.AddCommand(check, show, configStatusCommand(), configReloadCommand())
	return c
}

// checkFiles looks at the files that a configuration names, and prints what is wrong with them. One that is missing passes: the configuration may be
// for another machine. `bardo doctor` wants them all.
func checkFiles(w io.Writer, h home, name string, cfg *config.Config) (ok bool) {
	_, err := loadCatalog(cfg)
	errs := []error{err}
	if cfg.Listen.TLS.Cert != "" {
		_, _, err := h.certificate(cfg)
		errs = append(errs, err)
	}
	ok = true
	for _, err := range errs {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			_, _ = fmt.Fprintf(w, "%s: %v\n", name, err) // nowhere to report a broken terminal to
			ok = false
		}
	}
	return ok
}

// withConfig runs a command on the loaded configuration.
func withConfig(run func(c *cobra.Command, h home, cfg *config.Config, path string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		h, err := openHome()
		if err != nil {
			return err
		}
		cfg, path, err := configured(c, h)
		if err != nil {
			return err
		}
		return run(c, h, cfg, path)
	}
}
