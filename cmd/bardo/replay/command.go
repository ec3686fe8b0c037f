package replay

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/run"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
)

// Command is `bardo replay`. parts returns the parts of a gateway without any state.
func Command(parts func() run.Parts) *cobra.Command {
	c := &cobra.Command{
		Use: "replay FILE...", Short: "Replay recorded conversations through the layers, and show what they save", Args: cli.SomeArgs("files of recorded conversations"),
		Long: "Replay recorded conversations through the layers of the configuration, and compare their cost with that of the same requests sent to the provider\n" +
			"directly. Nothing is sent anywhere: the providers are simulated, with their prices and their prompt caches. docs/context.md describes the files.",
		Example: "  bardo replay day.jsonl -c bardo.yaml\n  bardo replay traces/*.jsonl --json",
	}
	asJSON := c.Flags().Bool("json", false, "print JSON")
	settings.Flag(c)
	c.RunE = func(c *cobra.Command, files []string) error {
		o, err := options(c, parts)
		if err != nil {
			return err
		}
		all := map[string]Compared{}
		for _, file := range files {
			compared, err := o.file(c, file)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			all[filepath.Base(file)] = compared
			if !*asJSON {
				if err := compared.print(c, file); err != nil {
					return err
				}
			}
		}
		if *asJSON {
			return cli.PrintJSON(c, all)
		}
		return nil
	}
	return c
}

func options(c *cobra.Command, parts func() run.Parts) (o Options, err error) {
	h, err := home.Open()
	if err != nil {
		return o, err
	}
	cfg, _, err := settings.ForCommand(c, h)
	if err != nil {
		return o, err
	}
	models, err := settings.Models(cfg, settings.NewLists(h, slog.New(slog.DiscardHandler)))
	return Options{Config: cfg, Parts: parts, Prices: pricesOf(cfg, models)}, err
}

// pricesOf returns the prices of models by their name at the provider.
func pricesOf(cfg *config.Config, models *catalog.Catalog) func(model string) policy.Prices {
	named := map[string]policy.Prices{}
	for _, p := range cfg.Enabled() {
		for _, m := range p.Models {
			at := models.At(p.ID, m)
			named[m.ID], named[at.Upstream] = at.Prices, at.Prices
		}
	}
	return func(model string) policy.Prices {
		if p, ok := named[model]; ok {
			return p
		}
		return models.At("", modelfile.Model{ID: model}).Prices
	}
}

func (o *Options) file(c *cobra.Command, file string) (Compared, error) {
	f, err := os.Open(file)
	if err != nil {
		return Compared{}, err
	}
	defer func() { _ = f.Close() }() // read only
	trace, err := Read(f)
	if err != nil {
		return Compared{}, err
	}
	return Compare(c.Context(), *o, trace)
}

// print writes two tables: the costs, and the layers.
func (c Compared) print(cmd *cobra.Command, file string) error {
	w := cmd.OutOrStdout()
	if _, err := fmt.Fprintf(w, "%s: %d requests, %.1f %% saved\n\n", filepath.Base(file), c.Direct.Requests, 100*c.Saved()); err != nil {
		return err
	}
	row := func(name string, r *Result) []string {
		return []string{
			name, fmt.Sprint(r.Calls), fmt.Sprint(r.Local), fmt.Sprint(r.Input), fmt.Sprintf("%.1f %%", 100*r.CachedShare()), fmt.Sprint(r.Written), fmt.Sprint(r.Output),
			fmt.Sprintf("%.4f", dollars(r.Cost)),
		}
	}
	heads := []string{"WAY", "CALLS", "LOCAL", "INPUT TOKENS", "CACHE READS", "CACHE WRITES", "OUTPUT TOKENS", "COST USD"}
	if err := cli.PrintTable(w, heads, [][]string{row("direct", &c.Direct), row("gateway", &c.Gateway)}); err != nil {
		return err
	}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(c.Gateway.Layers)) {
		l := c.Gateway.Layers[name]
		rows = append(rows, []string{
			name, fmt.Sprint(l.Runs), fmt.Sprint(l.Saved), fmt.Sprintf("%.4f", dollars(l.Worth)), fmt.Sprintf("%.2f", l.Took.Seconds()*1000/float64(max(l.Runs, 1))),
		})
		for _, step := range slices.Sorted(maps.Keys(l.Steps)) {
			s := l.Steps[step]
			rows = append(rows, []string{name + " " + step, fmt.Sprint(s.Runs), fmt.Sprint(s.Saved), fmt.Sprintf("%.4f", dollars(s.Worth)), ""})
		}
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := cli.PrintTable(w, []string{"LAYER, STEP", "RUNS", "TOKENS SAVED", "WORTH USD", "MEAN MS"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}
