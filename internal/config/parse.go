package config

import (
	"cmp"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"bardo.money/gateway/internal/configfile"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Parse reads a configuration file: TOML if its name ends in .toml, else YAML. Environment variables, looked up by env, override the file; an empty
// variable counts as unset. Without data, the configuration consists of defaults and environment. kinds are the kinds of providers that can be
// configured, in their default order. It returns nil and the problems if any of them is more than a warning.
func Parse(name string, data []byte, env func(string) (string, bool), kinds ...kind.Kind) (*Config, []Problem) {
	root, problems := configfile.Parse(name, data)
	if len(problems) > 0 {
		return nil, problems
	}
	d := &decoder{env: env, dir: filepath.Dir(name), where: map[string]configfile.Pos{"": root.At}, kinds: kinds}
	d.moveAliases(root)
	d.override(root)
	cfg := &Config{kinds: kinds, Providers: Providers{Hosts: map[policy.ProviderID]*Host{}}}
	setDefaults(reflect.ValueOf(cfg).Elem())
	d.value("", root, reflect.ValueOf(cfg).Elem(), field{})
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
	root, problems := configfile.Parse(name, data)
	if len(problems) > 0 {
		return ModelFile{}, problems
	}
	var file ModelFile
	d := &decoder{env: func(string) (string, bool) { return "", false }, where: map[string]configfile.Pos{"": root.At}}
	d.value("", root, reflect.ValueOf(&file).Elem(), field{})
	d.checkModels("models", file.Models)
	d.checkModels("families", file.Families)
	return file, d.sorted()
}

// moveAliases moves values from an older name of a key to its current key.
func (d *decoder) moveAliases(root *configfile.Node) {
	d.moveProviders(root)
	d.moveDreamKeys(root)
}

// dreamKeys are keys about dreams and testaments that are also accepted under providers.venice.
var dreamKeys = []string{"web_search_enabled", "web_search_budget_per_cycle_usdc", "sealed_testament", "integration_phase_attestation"}

func (d *decoder) moveDreamKeys(root *configfile.Node) {
	providers := root.Get("providers")
	if providers == nil {
		return
	}
	venice := providers.Value.Get("venice")
	if venice == nil || venice.Value.Kind != configfile.Table {
		return
	}
	var kept []configfile.Entry
	for _, e := range venice.Value.Keys {
		if !slices.Contains(dreamKeys, e.Name) {
			kept = append(kept, e)
			continue
		}
		into := root.Walk(e.At, "inference")
		if into == nil || into.Get(e.Name) != nil {
			d.fail(e.At, "providers.venice."+e.Name, "one of the two", "also given as inference.%s", e.Name)
			continue
		}
		into.Kind = configfile.Table
		into.Keys = append(into.Keys, e)
	}
	venice.Value.Keys = kept
}

func (d *decoder) moveProviders(root *configfile.Node) {
	inference := root.Get("inference")
	if inference == nil || inference.Value.Kind != configfile.Table {
		return
	}
	kept := inference.Value.Keys[:0:0]
	for _, e := range inference.Value.Keys {
		if e.Name != "providers" || e.Value.Kind != configfile.Table {
			kept = append(kept, e)
			continue
		}
		for _, p := range e.Value.Keys {
			d.moveProvider(root, p)
		}
	}
	if inference.Value.Keys = kept; len(kept) == 0 {
		root.Keys = slices.DeleteFunc(root.Keys, func(e configfile.Entry) bool { return e.Name == "inference" })
	}
}

func (d *decoder) moveProvider(root *configfile.Node, e configfile.Entry) {
	into := root.Walk(e.At, "providers")
	if into == nil || into.Get(e.Name) != nil {
		d.fail(e.At, "inference.providers."+e.Name, "one of the two", "also given as providers.%s", e.Name)
		return
	}
	into.Kind = configfile.Table
	into.Keys = append(into.Keys, e)
}

// appearance lists the providers in the order in which the file names them.
func appearance(root *configfile.Node, cfg *Config) []policy.ProviderID {
	providers := root.Get("providers")
	if providers == nil {
		return nil
	}
	var out []policy.ProviderID
	for _, e := range providers.Value.Keys {
		if e.Name != "custom" {
			out = append(out, policy.ProviderID(e.Name))
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
func (d *decoder) place(key string) configfile.Pos {
	for {
		if at, ok := d.where[key]; ok {
			return at
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
}
