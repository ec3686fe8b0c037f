package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"bardo.money/gateway/internal/baseurl"
	"bardo.money/gateway/internal/configfile"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
)

// overrides are the variables that override a key of the file. Those of keys without effect in this version are accepted with a warning, like the key
// itself.
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
	{"VENICE_MOCK_RATE_MS", "telemetry.venice_mock_rate_ms"},
	{"VVV_STAKING_MIN_CREDIT_THRESHOLD", minCreditKey},
}

const minCreditKey = "providers.venice.min_credit"

func (d *decoder) lookup(variable string) string {
	v, _ := d.env(variable)
	return v
}

// override applies the variables that are set to the file's tree.
func (d *decoder) override(root *configfile.Node) {
	for _, o := range overrides {
		v := d.lookup(o.variable)
		if v == "" {
			continue
		}
		at := configfile.Pos{File: o.variable}
		if later := laterAround(o.key); later != "" {
			d.warn(at, o.key, "accepted, but this version does not act on it")
			continue
		}
		if o.key == minCreditKey && !root.Has("providers", "venice") && d.lookup("VENICE_API_KEY") == "" {
			continue // it must not configure a provider that nothing else configures
		}
		if n := root.Walk(at, strings.Split(o.key, ".")...); n != nil {
			*n = configfile.Node{Kind: configfile.Scalar, At: at, Text: v}
		}
	}
}

// laterAround returns the later key that contains a key, or "".
func laterAround(key string) string {
	for _, l := range laterKeys {
		if key == l.key || strings.HasPrefix(key, l.key+".") {
			return l.key
		}
	}
	return ""
}

// enable completes the hosts: a key in the environment enables a host that the file does not name, and is the key of one that the file names without
// a key. A host without a default address, or that needs no key, is enabled only by its address.
func (d *decoder) enable(cfg *Config) {
	for _, k := range d.kinds.hosts() {
		id := policy.ProviderID(k.Name)
		h, key := cfg.Providers.Hosts[id], d.firstOf(k.Variables...)
		own := d.baseURL(d.inRegion(k, h))
		if h == nil && slices.ContainsFunc(cfg.Providers.Custom, func(c Custom) bool { return c.ID == id }) {
			continue
		}
		if h == nil && (!key.IsSet() || own == URL{} || k.Keyless && d.lookup(k.URLVariable) == "") {
			continue
		}
		if h == nil {
			h = &Host{}
			cfg.Providers.Hosts[id] = h
		}
		atOwn := h.BaseURL == URL{} || h.BaseURL == own
		h.BaseURL = h.BaseURL.Or(own)
		if k.Regional() {
			d.completeRegional(k, h, key)
		} else if h.BaseURL == (URL{}) {
			d.problem("providers."+k.Name+".base_url", "where its models are served, or the variable "+k.URLVariable, missing)
		}
		if !h.key().IsSet() && len(h.APIKeys) == 0 {
			h.APIKey = key
		}
		if !h.key().IsSet() && len(h.APIKeys) == 0 && atOwn && !k.Keyless && !h.BYOK {
			d.problem("providers."+k.Name+".api_key", "a key, or the variable "+k.Variables[0], noKey)
		}
		if atOwn {
			d.refuseGatewayKey(k, h.APIKey, h.APIKeys)
		}
	}
}

// refuseGatewayKey refuses keys that a gateway has issued to its clients: a provider must not receive them. The usual cause is starting a gateway in
// an environment with the variables of its clients.
func (d *decoder) refuseGatewayKey(k kind.Kind, key Secret, more []Secret) {
	for _, s := range append([]Secret{key}, more...) {
		if text := s.Reveal(); strings.HasPrefix(text, "bardo_sk_") || strings.HasPrefix(text, "bardo_pk_") {
			d.problem("providers."+k.Name+".api_key", "the provider's key, here or in the variable "+k.Variables[0], "an API key of a gateway, for its clients")
			return
		}
	}
}

// baseURL returns a kind's default address, or the one from the environment.
func (d *decoder) baseURL(k kind.Kind) URL {
	text := k.BaseURL
	if k.URLVariable != "" {
		text = cmp.Or(d.lookup(k.URLVariable), text)
	}
	if text == "" {
		return URL{}
	}
	u, err := baseurl.Parse(text)
	if err != nil {
		d.problem("providers."+k.Name+".base_url", "a URL in "+k.URLVariable, "%v", err)
	}
	return u
}

// enableSpecial does the same for the providers whose sections have keys of their own, and completes the users' own keys.
func (d *decoder) enableSpecial(cfg *Config) {
	p := &cfg.Providers
	blockrun, openrouter, venice, bankr := d.kinds.find(KindBlockRun), d.kinds.find(KindOpenRouter), d.kinds.find(KindVenice), d.kinds.find(KindBankr)
	if key := d.firstOf(openrouter.Variables...); p.OpenRouter == nil && key.IsSet() {
		p.OpenRouter = &OpenRouter{}
	}
	if key := d.firstOf(venice.Variables...); p.Venice == nil && key.IsSet() {
		p.Venice = &Venice{}
	}
	if key := d.firstOf(bankr.Variables...); p.Bankr == nil && key.IsSet() {
		p.Bankr = &Bankr{}
		setDefaults(reflect.ValueOf(p.Bankr).Elem())
	}
	if b := p.BlockRun; b != nil {
		b.Endpoint = b.Endpoint.Or(d.baseURL(blockrun))
		if b.Endpoint.Path == "" {
			b.Endpoint.Path = "/v1"
		}
		if !b.APIKey.IsSet() && len(b.APIKeys) == 0 && !b.WalletKey.IsSet() {
			d.warn(d.place("providers.blockrun"), "providers.blockrun.api_key", "neither an account key nor a wallet_key: BlockRun will ask for payment")
		}
	}
	if o := p.OpenRouter; o != nil {
		o.complete(d, openrouter)
	}
	if v := p.Venice; v != nil {
		own := v.BaseURL == URL{}
		v.BaseURL = v.BaseURL.Or(d.baseURL(venice))
		d.completeKey(&v.APIKey, v.APIKeys, own && v.Staking == nil, venice)
	}
	if b := p.Bankr; b != nil {
		own := b.Endpoint == URL{}
		b.Endpoint = b.Endpoint.Or(d.baseURL(bankr))
		d.completeKey(&b.APIKey, b.APIKeys, own, bankr)
		b.completeAccount(own)
		if b.Wallet == "" {
			b.Wallet = d.lookup("BANKR_WALLET_ADDRESS")
		}
		if b.Subsystems == nil {
			b.Subsystems = []string{"autonomous", "social"}
		}
	}
	d.completeDirect(p.Direct)
}

func (o *OpenRouter) complete(d *decoder, k kind.Kind) {
	own := o.Endpoint == URL{}
	o.Endpoint = o.Endpoint.Or(d.baseURL(k))
	if !o.BYOK {
		d.completeKey(&o.APIKey, o.APIKeys, own, k)
	} else if !o.APIKey.IsSet() {
		o.APIKey = d.firstOf(k.Variables...)
	}
}

// completeKey takes a key from the environment if the file has none. A provider at its default address needs one.
func (d *decoder) completeKey(key *Secret, more []Secret, own bool, k kind.Kind) {
	if !key.IsSet() && len(more) == 0 {
		*key = d.firstOf(k.Variables...)
	}
	if !key.IsSet() && len(more) == 0 && own {
		d.problem("providers."+k.Name+".api_key", "a key, or the variable "+strings.Join(k.Variables, " or "), noKey)
	}
	if own {
		d.refuseGatewayKey(k, *key, more)
	}
}

// completeDirect sets the providers at which users' own keys are valid.
func (d *decoder) completeDirect(direct *Direct) {
	if direct == nil {
		return
	}
	for i := range direct.Keys {
		k, at := &direct.Keys[i], fmt.Sprintf("providers.direct.keys[%d]", i)
		if k.Provider == "" {
			d.problem(at+".provider", strings.Join(d.kinds.vendors(), ", ")+" or local", missing)
			continue
		}
		if of := d.kinds.find(k.Provider); of.Section == kind.VendorSection {
			own := k.BaseURL == URL{}
			k.BaseURL = k.BaseURL.Or(d.baseURL(of))
			if !k.APIKey.IsSet() && own {
				d.problem(at+".api_key", "the user's key", missing)
			}
		} else if k.BaseURL == (URL{}) {
			d.problem(at+".base_url", "where the models are served", missing)
		}
	}
}

// firstOf returns the first variable that is set.
func (d *decoder) firstOf(variables ...string) Secret {
	for _, v := range variables {
		if key := d.lookup(v); key != "" {
			return secret.New(key)
		}
	}
	return Secret{}
}

var (
	errUnclosed = errors.New("${ without }")
	errName     = errors.New("no name of a variable, which has letters, digits and _ alone")
)

// aName is the name of a variable.
var aName = regexp.MustCompile(`^[A-Za-z_][A-Za-z_0-9]*$`)

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
			return "", errUnclosed
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
	if !aName.MatchString(name) {
		return "", errName
	}
	return "", fmt.Errorf("the variable %s is not set", name)
}

// aVariable is the shell's syntax of a variable.
var aVariable = regexp.MustCompile(`^\$[A-Z_][A-Z_0-9]*$`)

// bareVariable returns the variable's name of a text in shell syntax, $NAME; "" for any other text.
func bareVariable(text string) string {
	if !aVariable.MatchString(text) {
		return ""
	}
	return text[1:]
}
