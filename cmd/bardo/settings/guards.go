package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"bardo.money/gateway/extproc/layers/firewall"
	"bardo.money/gateway/extproc/layers/guardrail"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
)

// FirewallRules are the configured rules for tools. The configuration's validation has already reported errors.
func FirewallRules(cfg *config.Firewall) ([]firewall.Rule, error) {
	out := make([]firewall.Rule, 0, len(cfg.Rules))
	for i := range cfg.Rules {
		c := &cfg.Rules[i]
		r := firewall.Rule{
			ID: c.ID, Keys: c.Keys, Tiers: c.Tiers, Subsystems: c.Subsystems, Allow: c.Allow, Deny: c.Deny, Tools: c.Tools, OwnSchema: c.CheckArguments,
			OnViolation: firewall.Action(c.OnViolation), Shadow: c.Shadow,
		}
		var err error
		if c.Schema != "" {
			if r.Schema, err = rule.ParseSchema(c.Schema); err != nil {
				return nil, fmt.Errorf("firewall rule %s: schema: %w", c.ID, err)
			}
		}
		if c.Condition != "" {
			if r.Condition, err = rule.ParseCondition(c.Condition); err != nil {
				return nil, fmt.Errorf("firewall rule %s: condition: %w", c.ID, err)
			}
		}
		out = append(out, r)
	}
	return out, nil
}

// Guardrails are the configured guardrail hooks.
func Guardrails(hooks []config.Guardrail) []guardrail.Hook {
	out := make([]guardrail.Hook, 0, len(hooks))
	for i := range hooks {
		c := &hooks[i]
		h := guardrail.Hook{
			Name: c.Name, Cluster: string(hookCluster("guardrail", c.Name, &c.URL)), Host: c.URL.Host, Path: c.URL.Path, Token: c.Token, Timeout: c.Timeout, MaxBytes: c.MaxBytes,
			OnError: guardrail.Mode(c.OnError), Shadow: c.Shadow, Private: c.Private, Requests: slices.Contains(c.When, "request"),
			Responses: slices.Contains(c.When, "response"), Profiles: c.Profiles, Subsystems: c.Subsystems, Keys: c.Keys,
		}
		if h.Path == "" {
			h.Path = "/"
		}
		out = append(out, h)
	}
	return out
}

// Cluster is an Envoy cluster of a service that is not a provider.
type Cluster struct {
	ID  policy.ProviderID
	URL config.URL
}

// HookClusters are the clusters of all hooks, and of other services that are called through Envoy.
func HookClusters(cfg *config.Config) (out []Cluster) {
	for i := range cfg.Pipeline.Guardrails {
		c := &cfg.Pipeline.Guardrails[i]
		out = append(out, Cluster{hookCluster("guardrail", c.Name, &c.URL), c.URL})
	}
	for i := range cfg.Pipeline.Retrieval.Hooks {
		c := &cfg.Pipeline.Retrieval.Hooks[i]
		out = append(out, Cluster{hookCluster("retrieval", c.Name, &c.URL), c.URL})
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.MCP.Servers)) {
		s := cfg.MCP.Servers[name]
		out = append(out, Cluster{hookCluster("mcp", name, &s.URL), s.URL})
	}
	if o := cfg.MCP.OAuth; o != nil {
		out = append(out, MCPKeysCluster(o))
	}
	if p := cfg.Auth.Privy; p != nil {
		out = append(out, PrivyCluster(p))
	}
	if b := cfg.Providers.Bankr; b.Buys() {
		out = append(out, BankrCluster(b))
	}
	return out
}

// MCPKeysCluster is the cluster of the key set of the authorization server for MCP clients.
func MCPKeysCluster(o *config.MCPOAuth) Cluster {
	return Cluster{hookCluster("oauth", "mcp", &o.JWKS), o.JWKS}
}

// PrivyCluster is the cluster of a Privy app's key set.
func PrivyCluster(p *config.Privy) Cluster {
	u := p.KeySet()
	return Cluster{hookCluster("privy", "keys", &u), u}
}

// BankrCluster is the cluster of the API for buying credit.
func BankrCluster(b *config.Bankr) Cluster {
	return Cluster{hookCluster("bankr", "account", &b.AccountEndpoint), b.AccountEndpoint}
}

// hookCluster is the name of a hook's cluster. As a provider's, it changes with the address.
func hookCluster(kind, name string, u *config.URL) policy.ProviderID {
	sum := sha256.Sum256([]byte(kind + "\n" + u.Scheme + "://" + u.Host))
	return policy.ProviderID(kind + "." + name + "." + hex.EncodeToString(sum[:4]))
}
