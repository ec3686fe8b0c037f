package config

import (
	"fmt"
	"time"
)

// Privy is the operator's app at Privy, whose users may send its access tokens.
type Privy struct {
	AppID   string        `key:"app_id" doc:"The app's id. Required."`
	JWKS    URL           `key:"jwks_url" doc:"Where the app's public keys are, fetched through Envoy. Without it, https://auth.privy.io/api/v1/apps/<app_id>/jwks.json."`
	Issuer  string        `key:"issuer" default:"privy.io" doc:"The issuer that tokens name."`
	Refresh time.Duration `key:"refresh" default:"1h" doc:"Age at which the app's keys are fetched again. A token with a key id that is not among them has them fetched again at most once a minute."`
}

// KeySet returns the URL of the app's public keys.
func (p *Privy) KeySet() URL {
	if p.JWKS != (URL{}) {
		return p.JWKS
	}
	return URL{Scheme: "https", Host: "auth.privy.io", Path: "/api/v1/apps/" + p.AppID + "/jwks.json"}
}

// ERC8004 configures the registry of agents, and whose ratings count.
type ERC8004 struct {
	Network    string        `key:"network" default:"base" oneof:"base base-sepolia" doc:"The chain of the registries: base (eip155:8453) or base-sepolia (eip155:84532)."`
	RPC        Secret        `key:"rpc" doc:"The JSON-RPC address of a node of the chain. It may contain a key, so it is shown nowhere. Required."`
	Identities string        `key:"identity_registry" doc:"The registry of identities: 0x and 40 hexadecimal digits. Without it, the network's."`
	Reputation string        `key:"reputation_registry" doc:"The registry of reputation, of the same registry of identities. Without it, the network's."`
	Audience   string        `key:"audience" doc:"The gateway's name in what owners of agents sign, such as https://inference.example. Without it, listen.public_url. One of the two is required."`
	Reviewers  []string      `key:"reviewers" doc:"Addresses whose feedback counts. Without any, there are no discounts: anybody can give feedback from as many addresses as he likes."`
	Tags       []string      `key:"tags" doc:"First tags of the feedback that counts. Without any, all."`
	Scale      int64         `key:"scale" default:"100" min:"1" max:"1000000000" doc:"The value of feedback that counts as 1. Less counts in proportion, more counts as 1, and less than 0 as 0."`
	Refresh    time.Duration `key:"refresh" default:"30s" doc:"How often linked agents are read: their owners, wallets and feedback."`
	Delegation bool          `key:"delegations" default:"false" doc:"Whether delegates that an agent's owner or wallet signed for may send requests, from the account that the agent is linked to. It needs sessions, which hold what they may spend."`
	LinkTTL    time.Duration `key:"link_ttl" default:"2160h" doc:"How long an agent stays linked to an account; then its owner has to link it again."`
}

// checkIdentity checks the identity providers.
func (d *decoder) checkIdentity(cfg *Config) {
	if p := cfg.Auth.Privy; p != nil {
		d.checkPrivy(p)
	}
	if e := cfg.Auth.ERC8004; e != nil {
		d.checkERC8004(cfg, e)
	}
}

// Limits of a score: a request to the node has one part for each reviewer and tag.
const maxReviewers, maxTags = 32, 4

func (d *decoder) checkERC8004(cfg *Config, e *ERC8004) {
	const key, form = "auth.erc8004.", "0x and 40 hexadecimal digits"
	for i, a := range append([]string{e.Identities, e.Reputation}, e.Reviewers...) {
		name := [...]string{"identity_registry", "reputation_registry", "reviewers"}[min(i, 2)]
		if (a != "" || i > 1) && !addressForm().MatchString(a) {
			d.problem(key+name, form, "%q is not an address", a)
		}
	}
	if (e.Identities == "") != (e.Reputation == "") {
		d.problem(key+"reputation_registry", "both registries, or neither", "the registry of reputation belongs to that of identities")
	}
	if !e.RPC.IsSet() {
		d.problem(key+"rpc", "the address of a node", "agents cannot be read without a node")
	}
	if e.Audience == "" && cfg.Listen.PublicURL == (URL{}) {
		d.problem(key+"audience", "the gateway's name, such as https://inference.example", "owners of agents sign for a gateway by its name")
	}
	if len(e.Reviewers) > maxReviewers || len(e.Tags) > maxTags {
		d.problem(key+"reviewers", fmt.Sprintf("at most %d reviewers and %d tags", maxReviewers, maxTags), "%d and %d", len(e.Reviewers), len(e.Tags))
	}
	if e.Refresh < time.Second || e.Refresh > time.Hour {
		d.problem(key+"refresh", "from 1s to 1h", "%s", e.Refresh)
	}
	if e.LinkTTL < time.Minute {
		d.problem(key+"link_ttl", "at least 1m", "%s", e.LinkTTL)
	}
	if e.Delegation && cfg.Sessions.Mode == "off" {
		d.problem(key+"delegations", "false, with sessions.mode: off", "what delegates may spend is the budget of a session")
	}
}

func (d *decoder) checkPrivy(p *Privy) {
	const most = 128
	if !isWord(p.AppID) || len(p.AppID) > most {
		d.problem("auth.privy.app_id", "the id of an app at Privy", "%q", p.AppID)
	}
	if p.Issuer == "" {
		d.problem("auth.privy.issuer", "the issuer that tokens name, such as privy.io", missing)
	}
	if p.Refresh < time.Minute || p.Refresh > 24*time.Hour {
		d.problem("auth.privy.refresh", "from 1m to 24h", "%s", p.Refresh)
	}
	if p.JWKS != (URL{}) && !p.JWKS.TLS() && p.JWKS.Public() {
		d.problem("auth.privy.jwks_url", "an address that begins with https://", "whoever is between here and %s could replace the keys that tokens are verified with", p.JWKS.Host)
	}
}

// isWord reports whether a name consists of letters, digits, dashes and underscores.
func isWord(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' && c != '_' {
			return false
		}
	}
	return s != ""
}
