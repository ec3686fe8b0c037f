package config

import (
	"fmt"
	"slices"
	"strings"

	"bardo.money/gateway/internal/secret"
)

// overrides are the variables that stand over a key of the file. Those whose key nothing acts on are accepted with a
// warning, like the key itself.
var overrides = []struct{ variable, key string }{
	{"BARDO_INFERENCE_URL", "listen.public_url"},
	{"BARDO_INFERENCE_MAX_RETRIES", "routing.max_retries"},
	{"BARDO_INFERENCE_SPREAD_PCT", "billing.spread_pct"},
	{"BARDO_INFERENCE_CACHE_THRESHOLD", "inference.caching.threshold"},
	{"BARDO_INFERENCE_CACHE_TTL", "inference.caching.ttl_s"},
	{"BARDO_T1_MODEL", "inference.tiers.T1.provider"},
	{"BARDO_T2_MODEL", "inference.tiers.T2.provider"},
	{"BARDO_BLOCKRUN_ENDPOINT", "providers.blockrun.endpoint"},
	{"BARDO_OPENROUTER_KEY", "providers.openrouter.api_key"},
	{"VENICE_MOCK_RATE_MS", "providers.venice.mock_rate_ms"},
	{"VVV_STAKING_MIN_CREDIT_THRESHOLD", "providers.venice.min_credit"},
}

func (d *decoder) lookup(variable string) string {
	v, _ := d.env(variable)
	return v
}

// override puts the variables that are set over what the file says.
func (d *decoder) override(root *node) {
	for _, o := range overrides {
		v := d.lookup(o.variable)
		if v == "" {
			continue
		}
		at := pos{file: o.variable}
		if later := laterAround(o.key); later != "" {
			d.warn(at, o.key, "accepted, but this version does not act on it")
			continue
		}
		if n := root.walk(at, strings.Split(o.key, ".")...); n != nil {
			*n = node{kind: scalar, at: at, text: v}
		}
	}
}

// laterAround is the later key that holds a key, or "".
func laterAround(key string) string {
	for _, l := range laterKeys {
		if key == l.key || strings.HasPrefix(key, l.key+".") {
			return l.key
		}
	}
	return ""
}

// enable completes the ordinary providers: a key in the environment enables one that the file does not name, and is the
// key of one that the file names without a key.
func (d *decoder) enable(cfg *Config) {
	for _, o := range ordinaries {
		p := o.at(&cfg.Providers)
		key := d.keyFor(o)
		if *p == nil && !key.IsSet() {
			continue
		}
		if *p == nil {
			*p = &Ordinary{}
		}
		own := (*p).BaseURL == URL{} || (*p).BaseURL == o.baseURL
		if (*p).BaseURL == (URL{}) {
			(*p).BaseURL = o.baseURL
		}
		if !(*p).APIKey.IsSet() && len((*p).APIKeys) == 0 {
			(*p).APIKey = key
		}
		if !(*p).APIKey.IsSet() && len((*p).APIKeys) == 0 && own {
			d.problem("providers."+string(o.id)+".api_key", "a key, or the variable "+o.vars[0], "no key")
		}
	}
}

// enableSpecial does the same for the providers that are more than a vendor, and completes the users' own keys.
func (d *decoder) enableSpecial(cfg *Config) {
	p := &cfg.Providers
	if key := d.firstOf("OPENROUTER_API_KEY"); p.OpenRouter == nil && key.IsSet() {
		p.OpenRouter = &OpenRouter{}
	}
	if key := d.firstOf("VENICE_API_KEY"); p.Venice == nil && key.IsSet() {
		p.Venice = &Venice{}
	}
	if key := d.firstOf("BANKR_API_KEY"); p.Bankr == nil && key.IsSet() {
		p.Bankr = &Bankr{}
	}
	if b := p.BlockRun; b != nil {
		b.Endpoint = b.Endpoint.or(URL{"https", "api.blockrun.ai", "/v1"})
		if b.Endpoint.Path == "" {
			b.Endpoint.Path = "/v1"
		}
		if !b.APIKey.IsSet() && len(b.APIKeys) == 0 {
			d.warn(d.place("providers.blockrun"), "providers.blockrun.api_key", "no account key, and this version does not pay by wallet: BlockRun will ask for payment")
		}
	}
	if o := p.OpenRouter; o != nil {
		o.complete(d)
	}
	if v := p.Venice; v != nil {
		own := v.BaseURL == URL{}
		v.BaseURL = v.BaseURL.or(URL{"https", "api.venice.ai", "/api/v1"})
		d.completeKey(&v.APIKey, v.APIKeys, own, "providers.venice", "VENICE_API_KEY")
	}
	if b := p.Bankr; b != nil {
		own := b.Endpoint == URL{}
		b.Endpoint = b.Endpoint.or(URL{"https", "llm.bankr.bot", "/v1"})
		d.completeKey(&b.APIKey, b.APIKeys, own, "providers.bankr", "BANKR_API_KEY")
		if b.Wallet == "" {
			b.Wallet = d.lookup("BANKR_WALLET_ADDRESS")
		}
		if b.Subsystems == nil {
			b.Subsystems = []string{"autonomous", "social"}
		}
	}
	d.completeDirect(p.Direct)
}

func (o *OpenRouter) complete(d *decoder) {
	own := o.Endpoint == URL{}
	o.Endpoint = o.Endpoint.or(URL{"https", "openrouter.ai", "/api/v1"})
	if !o.BYOK {
		d.completeKey(&o.APIKey, o.APIKeys, own, "providers.openrouter", "OPENROUTER_API_KEY")
	} else if !o.APIKey.IsSet() {
		o.APIKey = d.firstOf("OPENROUTER_API_KEY")
	}
}

// completeKey takes a key from the environment where the file has none. A provider at its own address needs one.
func (d *decoder) completeKey(key *Secret, more []Secret, own bool, section string, variables ...string) {
	if !key.IsSet() && len(more) == 0 {
		*key = d.firstOf(variables...)
	}
	if !key.IsSet() && len(more) == 0 && own {
		d.problem(section+".api_key", "a key, or the variable "+variables[0], "no key")
	}
}

// completeDirect fills in where users' own keys are good.
func (d *decoder) completeDirect(direct *Direct) {
	if direct == nil {
		return
	}
	for i := range direct.Keys {
		k, at := &direct.Keys[i], fmt.Sprintf("providers.direct.keys[%d]", i)
		if k.Provider == "" {
			d.problem(at+".provider", "openai, anthropic, google, deepseek, qwen or local", "missing")
			continue
		}
		if n := slices.IndexFunc(ordinaries, func(o ordinary) bool { return string(o.id) == k.Provider }); n >= 0 {
			own := k.BaseURL == URL{}
			k.BaseURL = k.BaseURL.or(ordinaries[n].baseURL)
			if !k.APIKey.IsSet() && own {
				d.problem(at+".api_key", "the user's key", "missing")
			}
		} else if k.BaseURL == (URL{}) {
			d.problem(at+".base_url", "where the models are served", "missing")
		}
	}
}

func (d *decoder) keyFor(o ordinary) Secret { return d.firstOf(o.vars...) }

// firstOf is the first of some variables that is set.
func (d *decoder) firstOf(variables ...string) Secret {
	for _, v := range variables {
		if key := d.lookup(v); key != "" {
			return secret.New(key)
		}
	}
	return Secret{}
}

// expand replaces ${VAR} by the variable's value, and, for secrets, env:VAR as a whole. "$${" is a literal "${".
func expand(text string, secret bool, env func(string) (string, bool)) (string, error) {
	if name, ok := strings.CutPrefix(text, "env:"); ok && secret {
		return variable(name, env)
	}
	if !strings.Contains(text, "${") {
		return text, nil
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		if strings.HasSuffix(before, "$") {
			b.WriteString("{")
			text = after
			continue
		}
		name, rest, closed := strings.Cut(after, "}")
		if !closed {
			return "", fmt.Errorf("${ without }")
		}
		value, err := variable(name, env)
		if err != nil {
			return "", err
		}
		b.WriteString(value)
		text = rest
	}
}

func variable(name string, env func(string) (string, bool)) (string, error) {
	if v, ok := env(name); ok {
		return v, nil
	}
	return "", fmt.Errorf("the variable %s is not set", name)
}
