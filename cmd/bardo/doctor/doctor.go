// Package doctor is `bardo doctor`: it checks the gateway's requirements on this machine.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/envoy"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
)

// Finding is the result of one check.
type Finding struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

func pass(check, format string, args ...any) Finding {
	return Finding{Check: check, OK: true, Detail: fmt.Sprintf(format, args...)}
}

func fail(check, fix, format string, args ...any) Finding {
	return Finding{Check: check, Fix: fix, Detail: fmt.Sprintf(format, args...)}
}

// failWith returns a failure from an error, with the error's advice if it has some.
func failWith(check string, err error) Finding {
	if a, ok := errors.AsType[cli.Advised](err); ok {
		return fail(check, a.Fix, "%v", a.Err)
	}
	return fail(check, "look at the file system", "%v", err)
}

// Command is `bardo doctor`.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use: "doctor", Short: "Check what the gateway needs: a line each, with the fix; exit status 1 if anything fails", Args: cli.NoArgs,
	}
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		h, err := home.Open()
		if err != nil {
			return err
		}
		found := runChecks(c, h)
		if *asJSON {
			err = cli.PrintJSON(c, found)
		} else {
			err = printFindings(c, found)
		}
		if err != nil {
			return err
		}
		for _, f := range found {
			if !f.OK {
				return cli.Exit(1)
			}
		}
		return nil
	}
	return c
}

// runChecks runs all checks. Without a valid configuration, those that need one are skipped.
func runChecks(c *cobra.Command, h home.Dir) []Finding {
	ctx := c.Context()
	found := []Finding{checkEnvoy(ctx), checkHome(h), checkDescriptors(envoy.Connections())}
	cfg, f := checkConfig(c, h)
	found = append(found, f)
	if cfg == nil {
		return found
	}
	found = checkWithConfig(ctx, h, cfg, found)
	hide := secret.NewRedactor(cfg.Secrets()...)
	for i := range found {
		hide.Strings(&found[i].Detail, &found[i].Fix)
	}
	return found
}

// checkWithConfig runs the checks that need a configuration.
func checkWithConfig(ctx context.Context, h home.Dir, cfg *config.Config, found []Finding) []Finding {
	now := time.Now()
	if isPlane(ctx, h, cfg) {
		found = append(found[1:], checkPlanePorts(ctx, h, cfg)...) // it has no Envoy
		found = append(found, checkCertificate(cfg, now), checkCatalog(cfg))
		found = append(found, checkPeers(cfg, now)...)
		return append(found, checkProviders(ctx, h, cfg)...)
	}
	found = append(found, checkPepper(ctx, h, cfg), checkLedger(ctx, h, cfg))
	running, _ := h.Answering(ctx)
	found = append(found, Ports(ctx, running, cfg)...)
	found = append(found, checkCertificate(cfg, now), checkCatalog(cfg))
	found = append(found, checkFiles(h, cfg)...)
	found = append(found, checkPeers(cfg, now)...)
	found = append(found, checkPlane(ctx, cfg)...)
	found = append(found, checkProviders(ctx, h, cfg)...)
	found = append(found, checkMCP(ctx, h, cfg)...)
	if cfg.DataPath == config.DataPathModule {
		found = append(found, Module(ctx))
	}
	found = append(found, checkModels(h, cfg)...)
	found = append(found, checkPrices(h, cfg)...)
	return append(found, checkRoots(cfg))
}

func printFindings(c *cobra.Command, found []Finding) error {
	var b strings.Builder
	for _, f := range found {
		verdict, fix := "ok  ", ""
		if !f.OK {
			verdict, fix = "FAIL", "; fix: "+f.Fix
		}
		fmt.Fprintf(&b, "%s  %-24s %s%s\n", verdict, f.Check, f.Detail, fix)
	}
	_, err := fmt.Fprint(c.OutOrStdout(), b.String())
	return err
}

// envoyTimeout bounds `envoy --version`.
const envoyTimeout = 10 * time.Second

func checkEnvoy(ctx context.Context) Finding {
	const check = "envoy"
	path, err := home.EnvoyBinary()
	if err != nil {
		return failWith(check, err)
	}
	ctx, cancel := context.WithTimeout(ctx, envoyTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output() //nolint:gosec // the operator's own Envoy
	if err != nil {
		return fail(check, "install Envoy again with `make tools`, or set ENVOY_BIN to one that runs", "%s does not run: %v", path, err)
	}
	version, ok := envoyVersion(string(out))
	if !ok {
		return fail(check, "install Envoy again with `make tools`, or set ENVOY_BIN to one", "%s is no Envoy: it does not say its version", path)
	}
	return checkEnvoyVersion(path, version)
}

func checkEnvoyVersion(path, version string) Finding {
	const check = "envoy"
	switch pinned := envoy.PinnedVersion(); {
	case envoy.IsOld(version):
		return fail(check, "use Envoy "+pinned+", which `make tools` installs", "%s, version %s, is older than %s, with which the gateway is tested", path, version, pinned)
	case !envoy.TakesModule(version):
		return pass(check, "%s, version %s; the gateway is tested with %s", path, version, pinned)
	}
	return pass(check, "%s, version %s", path, version)
}

// envoyVersion parses the output of `envoy --version`: "…/envoy  version: COMMIT/1.40.0/Clean/RELEASE/BoringSSL".
func envoyVersion(out string) (version string, ok bool) {
	_, build, _ := strings.Cut(out, "version: ")
	parts := strings.Split(strings.TrimSpace(build), "/")
	if len(parts) < 2 {
		return "", false
	}
	return parts[1], true
}

func checkConfig(c *cobra.Command, h home.Dir) (*config.Config, Finding) {
	const check = "configuration"
	cfg, path, err := settings.ForCheck(c, h)
	var printed cli.Exit
	switch {
	case errors.As(err, &printed):
		return nil, fail(check, "correct the errors above", "%s has mistakes", cmp.Or(path, "the environment"))
	case err != nil:
		return nil, failWith(check, err)
	}
	if why := control.RefusedByEnvoy(c.Context(), h, path); why != "" {
		return cfg, fail(check, "remove the cause; `bardo config reload` tries again", "%s has no mistakes, but in the running gateway %s", cmp.Or(path, "the built-in one"), why)
	}
	if keys := control.WaitingForStart(c.Context(), h, path); len(keys) > 0 {
		return cfg, pass(check, "%s; the gateway that runs takes %s at its next start", path, strings.Join(keys, ", "))
	}
	return cfg, pass(check, "%s", cmp.Or(path, "built in: there is no file"))
}

func checkCatalog(cfg *config.Config) Finding {
	if _, err := settings.Catalog(cfg); err != nil {
		return fail("models", "correct the file that models.catalog names", "%v", err)
	}
	return pass("models", "the catalog is readable")
}

// checkPrices lists the configured models without a known price: an assumed one is charged.
func checkPrices(h home.Dir, cfg *config.Config) []Finding {
	models, err := settings.Models(cfg, settings.NewLists(h, slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil // checkCatalog reports it
	}
	var unknown []string
	var assumed policy.PriceList
	for _, p := range cfg.Enabled() {
		for _, m := range p.Models {
			if at := models.At(p.ID, m); !p.Free && !at.Prices.Known {
				unknown, assumed = append(unknown, m.ID+" at "+string(p.ID)), at.Prices.List()
			}
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return []Finding{pass("prices", "not known, and assumed to be %s USD per million input tokens and %s per million output tokens: %s; set the price of these models in the configuration",
		assumed.Input, assumed.Output, strings.Join(unknown, ", "))}
}
