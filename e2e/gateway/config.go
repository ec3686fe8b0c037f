package gateway

import (
	"fmt"
	"os"
	"strings"

	"bardo.money/gateway/e2e/fake"
)

// Options say what to start. The zero value is a gateway without a provider, which has its demo provider.
type Options struct {
	Providers []Provider
	Config    string   // more of the configuration, as YAML at the top level; without billing, 20 percent come on top of every cost
	Env       []string // more variables, NAME=value
	NoKey     bool     // do not create a key beforehand
	Stdout    *os.File // where the program prints; nil: what Log returns
	Stderr    *os.File // where it logs; nil: what Log returns
	Home      string   // state to go on with; "": a new, empty one
	DataPath  string   // extproc or module; "": what $BARDO_DATA_PATH says, or else the default
	Program   string   // the bardo to start; "": $BARDO_BIN, or one build of the tree
}

// Provider is one configured provider, in order of preference.
type Provider struct {
	ID      string // "openai" and "anthropic" are the ordinary ones; any other is a custom provider
	Fake    *fake.Server
	Format  string  // of a custom provider; "": openai
	Models  []Model // of a custom provider; nil: any
	BaseURL string  // instead of the fake's
	Key     string  // instead of the fake's
	More    string  // further keys of a custom provider, e.g. "private: true"
}

// Model is one model of a custom provider.
type Model struct {
	ID       string
	Upstream string // the provider's own name for it; "": the same
	Price    string // as in the configuration, e.g. "{input: 3, output: 15}"
	More     string // further keys, e.g. "family: llama"
}

// yaml is the whole configuration file.
func (o Options) yaml() string {
	var b strings.Builder
	if !strings.Contains("\n"+o.Config, "\nlisten:") {
		b.WriteString("listen: {http: 127.0.0.1:0, https: 127.0.0.1:0, admin: 127.0.0.1:0}\n")
	}
	if path := o.dataPath(); path != "" {
		fmt.Fprintf(&b, "data_path: %s\n", path)
	}
	if len(o.Providers) > 0 {
		b.WriteString("providers:\n")
		o.writeProviders(&b)
	}
	if !strings.Contains("\n"+o.Config, "\nbilling:") { // what is charged and what it cost are two numbers
		b.WriteString("billing: {spread_pct: 20}\n")
	}
	b.WriteString(strings.TrimLeft(o.Config, "\n"))
	return b.String()
}

// dataPath is the shape of the data path; "" is the program's default.
func (o Options) dataPath() string { return or(o.DataPath, os.Getenv("BARDO_DATA_PATH")) }

// sections are the providers that have one of their own in the configuration, by the key of their address.
var sections = map[string]string{
	"openai": "base_url", "anthropic": "base_url", "google": "base_url", "deepseek": "base_url", "qwen": "base_url",
	"blockrun": "endpoint", "openrouter": "endpoint", "bankr": "endpoint", "venice": "base_url",
}

func (o Options) writeProviders(b *strings.Builder) {
	ids := make([]string, len(o.Providers))
	var custom []string
	for i, p := range o.Providers {
		ids[i] = p.ID
		url, key := p.BaseURL, p.Key
		if p.Fake != nil {
			url, key = or(url, p.Fake.URL), or(key, p.Fake.Key)
		}
		if at, ok := sections[p.ID]; ok {
			fmt.Fprintf(b, "  %s: {api_key: %q, %s: %q%s%s}\n", p.ID, key, at, url, more(p.More), models(p.Models))
			continue
		}
		custom = append(custom, fmt.Sprintf("    - {id: %s, format: %s, endpoints: [%q], api_key: %q%s%s}\n",
			p.ID, or(p.Format, "openai"), url, key, more(p.More), models(p.Models)))
	}
	fmt.Fprintf(b, "  order: [%s]\n", strings.Join(ids, ", "))
	if len(custom) > 0 {
		fmt.Fprintf(b, "  custom:\n%s", strings.Join(custom, ""))
	}
}

func models(ms []Model) string {
	if len(ms) == 0 {
		return ""
	}
	rows := make([]string, len(ms))
	for i, m := range ms {
		rows[i] = fmt.Sprintf("{id: %q", m.ID)
		if m.Upstream != "" {
			rows[i] += fmt.Sprintf(", upstream_id: %q", m.Upstream)
		}
		if m.Price != "" {
			rows[i] += ", price: " + m.Price
		}
		rows[i] += more(m.More) + "}"
	}
	return ", models: [" + strings.Join(rows, ", ") + "]"
}

func more(keys string) string {
	if keys == "" {
		return ""
	}
	return ", " + keys
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
