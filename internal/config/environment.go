package config

import (
	"fmt"
	"strings"
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
	{"OPENROUTER_API_KEY", "providers.openrouter.api_key"},
	{"GOOGLE_API_KEY", "providers.google.api_key"},
	{"VENICE_API_KEY", "providers.venice.api_key"},
	{"VENICE_MOCK_RATE_MS", "providers.venice"},
	{"VVV_STAKING_MIN_CREDIT_THRESHOLD", "providers.venice"},
	{"BANKR_API_KEY", "providers.bankr.api_key"},
	{"BANKR_WALLET_ADDRESS", "providers.bankr.wallet"},
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
		if *p == nil && key == "" {
			continue
		}
		if *p == nil {
			*p = &Ordinary{}
		}
		own := (*p).BaseURL == URL{} || (*p).BaseURL == o.baseURL
		if (*p).BaseURL == (URL{}) {
			(*p).BaseURL = o.baseURL
		}
		if (*p).APIKey == "" {
			(*p).APIKey = key
		}
		if (*p).APIKey == "" && own {
			d.problem("providers."+string(o.id)+".api_key", "a key, or the variable "+o.vars[0], "no key")
		}
	}
}

func (d *decoder) keyFor(o ordinary) Secret {
	for _, v := range o.vars {
		if key := d.lookup(v); key != "" {
			return Secret(key)
		}
	}
	return ""
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
