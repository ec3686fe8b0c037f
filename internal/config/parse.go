package config

import (
	"cmp"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Parse reads a configuration file: TOML if its name ends in .toml, else YAML. Environment variables, looked up by env, override the file; an empty
// variable counts as unset. Without data, the configuration consists of defaults and environment. kinds are the kinds of providers that can be
// configured, in their default order. It returns nil and the problems if any of them is more than a warning.
func Parse(name string, data []byte, env func(string) (string, bool), kinds ...kind.Kind) (*Config, []Problem) {
	root, problems := parseTree(name, data)
	if len(problems) > 0 {
		return nil, problems
	}
	d := &decoder{env: env, where: map[string]pos{"": root.at}, kinds: kinds}
	d.moveAliases(root)
	d.override(root)
	cfg := &Config{kinds: kinds, Providers: Providers{Hosts: map[policy.ProviderID]*Host{}}}
	setDefaults(reflect.ValueOf(cfg).Elem())
	d.value("", root, reflect.ValueOf(cfg).Elem(), field{})
	for _, path := range []*string{&cfg.Models.Catalog, &cfg.Models.Dir, &cfg.Models.Runtime, &cfg.Pipeline.DeFi.Facts} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(filepath.Dir(name), *path)
		}
	}
	cfg.appeared = appearance(root, cfg)
	d.enable(cfg)
	d.enableSpecial(cfg)
	d.check(cfg)
	if Failed(d.problems) {
		cfg = nil
	}
	return cfg, d.sorted()
}

// ParseModels reads a file of model entries, YAML or TOML by its name.
func ParseModels(name string, data []byte) (ModelFile, []Problem) {
	root, problems := parseTree(name, data)
	if len(problems) > 0 {
		return ModelFile{}, problems
	}
	var file ModelFile
	d := &decoder{env: func(string) (string, bool) { return "", false }, where: map[string]pos{"": root.at}}
	d.value("", root, reflect.ValueOf(&file).Elem(), field{})
	d.checkModels("models", file.Models)
	d.checkModels("families", file.Families)
	return file, d.sorted()
}

// moveAliases moves values from an older name of a key to its current key.
func (d *decoder) moveAliases(root *node) {
	d.moveProviders(root)
	d.moveDreamKeys(root)
}

// dreamKeys are keys about dreams and testaments that are also accepted under providers.venice.
var dreamKeys = []string{"web_search_enabled", "web_search_budget_per_cycle_usdc", "sealed_testament", "integration_phase_attestation"}

func (d *decoder) moveDreamKeys(root *node) {
	providers := root.get("providers")
	if providers == nil {
		return
	}
	venice := providers.value.get("venice")
	if venice == nil || venice.value.kind != table {
		return
	}
	var kept []entry
	for _, e := range venice.value.keys {
		if !slices.Contains(dreamKeys, e.name) {
			kept = append(kept, e)
			continue
		}
		into := root.walk(e.at, "inference")
		if into == nil || into.get(e.name) != nil {
			d.fail(e.at, "providers.venice."+e.name, "one of the two", "also given as inference.%s", e.name)
			continue
		}
		into.kind = table
		into.keys = append(into.keys, e)
	}
	venice.value.keys = kept
}

func (d *decoder) moveProviders(root *node) {
	inference := root.get("inference")
	if inference == nil || inference.value.kind != table {
		return
	}
	kept := inference.value.keys[:0:0]
	for _, e := range inference.value.keys {
		if e.name != "providers" || e.value.kind != table {
			kept = append(kept, e)
			continue
		}
		for _, p := range e.value.keys {
			d.moveProvider(root, p)
		}
	}
	if inference.value.keys = kept; len(kept) == 0 {
		root.keys = slices.DeleteFunc(root.keys, func(e entry) bool { return e.name == "inference" })
	}
}

func (d *decoder) moveProvider(root *node, e entry) {
	into := root.walk(e.at, "providers")
	if into == nil || into.get(e.name) != nil {
		d.fail(e.at, "inference.providers."+e.name, "one of the two", "also given as providers.%s", e.name)
		return
	}
	into.kind = table
	into.keys = append(into.keys, e)
}

// appearance lists the providers in the order in which the file names them.
func appearance(root *node, cfg *Config) []policy.ProviderID {
	providers := root.get("providers")
	if providers == nil {
		return nil
	}
	var out []policy.ProviderID
	for _, e := range providers.value.keys {
		if e.name != "custom" {
			out = append(out, policy.ProviderID(e.name))
			continue
		}
		for _, c := range cfg.Providers.Custom {
			out = append(out, c.ID)
		}
	}
	return out
}

// sorted returns all problems in the order of the file, those of the environment first. A key that was given under a wrong name is not also reported
// as missing.
func (d *decoder) sorted() []Problem {
	d.problems = slices.DeleteFunc(d.problems, func(p Problem) bool {
		return (p.Message == missing || p.Message == noKey) && slices.Contains(d.meant, p.Key)
	})
	slices.SortStableFunc(d.problems, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col)) })
	return d.problems
}

// place returns the position of a key, or else of the nearest key around it.
func (d *decoder) place(key string) pos {
	for {
		if at, ok := d.where[key]; ok {
			return at
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
}
