package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/envoy"
	"bardo.money/gateway/policy/ledger/store"
)

// versions is the output of `version --json`.
type versions struct {
	Version string `json:"version"`
	Commit  string `json:"commit"` // "unknown" without build information
	Changed bool   `json:"changed"`
	Go      string `json:"go"`
	Envoy   string `json:"envoy"`  // the pinned version; `bardo doctor` shows the installed one
	Ledger  int    `json:"ledger"` // version of the ledger's schema
}

func versionCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "version", Short: "Print the versions of the program, Go, Envoy and the ledger", Args: cli.NoArgs,
		Long: "Print the version of the program, the commit and the Go version that it was built with, the version of Envoy that it was tested\n" +
			"with, and the version of the ledger's schema. `bardo doctor` shows the Envoy that is installed.",
		Example: "  bardo version\n  bardo version --json",
	}
	asJSON := cli.JSONFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		v := thisVersion()
		if *asJSON {
			return cli.PrintJSON(c, v)
		}
		return v.print(c)
	}
	return c
}

func thisVersion() versions {
	v := versions{Version: cli.Version, Commit: "unknown", Go: runtime.Version(), Envoy: envoy.PinnedVersion(), Ledger: store.SchemaVersion}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Changed = s.Value == "true"
		}
	}
	return v
}

func (v versions) print(c *cobra.Command) error {
	changed := ""
	if v.Changed {
		changed = ", with changes"
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "bardo   %s\ncommit  %s%s\ngo      %s\nenvoy   %s\nledger  schema version %d\n",
		v.Version, v.Commit, changed, v.Go, v.Envoy, v.Ledger)
	return err
}
