package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/doctor"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/parts"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy/profile"
)

func configCommand() *cobra.Command {
	c := cli.Group("config", "Check, print or reload the configuration")
	check := &cobra.Command{
		Use: "check", Short: "Validate a configuration file", Args: cli.NoArgs,
		RunE: withConfig(func(c *cobra.Command, h home.Dir, cfg *config.Config, path string) error {
			name := path
			if path == "" {
				name = "built-in configuration"
			}
			warnOfProfiles(c.ErrOrStderr(), name, cfg)
			warnOfModels(c.ErrOrStderr(), h, name, cfg)
			if !checkFiles(c.ErrOrStderr(), h, name, cfg) {
				return cli.Exit(2)
			}
			warnOfModule(c, name, cfg)
			if why := control.RefusedByEnvoy(c.Context(), h, path); why != "" {
				_, _ = fmt.Fprintf(c.ErrOrStderr(), "%s: it has no mistakes, but in the running gateway %s\n", name, why) // nowhere to report a broken terminal to
				return cli.Exit(2)
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), name+": ok")
			return err
		}),
	}
	show := &cobra.Command{
		Use: "print", Short: "Print the effective configuration, secrets masked", Args: cli.NoArgs,
		RunE: withConfig(func(c *cobra.Command, _ home.Dir, cfg *config.Config, _ string) error {
			_, err := c.OutOrStdout().Write(config.Print(cfg))
			return err
		}),
	}
	settings.Flag(check)
	settings.Flag(show)
	c.AddCommand(check, show, configStatusCommand(), configReloadCommand())
	return c
}

// checkFiles checks the files that a configuration names, and prints problems. A missing file is a warning, since the configuration may be for another
// machine; `bardo doctor` requires all.
func checkFiles(w io.Writer, h home.Dir, name string, cfg *config.Config) (ok bool) {
	_, err := settings.Catalog(cfg)
	_, badFacts := settings.Facts(cfg)
	errs := []error{err, badFacts}
	if cfg.Listen.TLS.Cert != "" {
		_, _, err := h.Certificate(cfg)
		errs = append(errs, err)
	}
	ok = true
	for _, err := range errs {
		if err == nil {
			continue
		}
		missing := errors.Is(err, fs.ErrNotExist)
		key, message, _ := strings.Cut(err.Error(), ": ")
		_, _ = fmt.Fprintln(w, config.Problem{File: name, Key: key, Message: message, Warning: missing}) // nowhere to report a broken terminal to
		ok = ok && missing
	}
	return ok
}

// warnOfModule warns about unmet requirements of data_path: module on this machine. The configuration may be for another one.
func warnOfModule(c *cobra.Command, file string, cfg *config.Config) {
	if cfg.DataPath != config.DataPathModule {
		return
	}
	if f := doctor.Module(c.Context()); !f.OK {
		warning := config.Problem{File: file, Key: "data_path", Message: f.Detail + ": " + f.Fix, Warning: true}
		_, _ = fmt.Fprintln(c.ErrOrStderr(), warning) // nowhere to report a broken terminal to
	}
}

// withConfig runs a command with the loaded configuration.
func withConfig(run func(c *cobra.Command, h home.Dir, cfg *config.Config, path string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		h, err := home.Open()
		if err != nil {
			return err
		}
		cfg, path, err := settings.ForCheck(c, h)
		if err != nil {
			return err
		}
		return run(c, h, cfg, path)
	}
}

// warnOfProfiles warns about profiles in a file that have no effect.
func warnOfProfiles(w io.Writer, file string, cfg *config.Config) {
	_, warnings := profile.New(settings.ProfileSettings(cfg))
	for _, text := range append(warnings, settings.UnknownSchemas(cfg)...) {
		key, message, _ := strings.Cut(text, ": ")
		_, _ = fmt.Fprintln(w, config.Problem{File: file, Key: key, Message: message, Warning: true}) // nowhere to report a broken terminal to
	}
}

// warnOfModels warns about names of models that no configured provider serves.
func warnOfModels(w io.Writer, h home.Dir, file string, cfg *config.Config) {
	models, err := settings.Models(cfg, settings.NewLists(h, slog.New(slog.DiscardHandler)))
	if err != nil {
		return // checkFiles prints it
	}
	for _, p := range settings.UnservedModels(cfg, settings.Resolver(parts.Adapters(), models, cfg)) {
		p.File = file
		_, _ = fmt.Fprintln(w, p) // nowhere to report a broken terminal to
	}
}
