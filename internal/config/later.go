package config

import (
	"slices"
	"strings"

	"bardo.money/gateway/internal/near"
)

// laterKey is a key of the published schema that nothing acts on in this version. below names the keys inside it, where
// they are fixed, so that a slip of the pen is still reported.
type laterKey struct {
	key, doc string
	below    string
}

var laterKeys = []laterKey{
	{"providers.google", "Google, on the operator's key.", "api_key base_url"},
	{"providers.blockrun", "BlockRun, paid by x402.", "endpoint wallet_key api_key max_usd_per_request"},
	{"providers.openrouter", "OpenRouter.", "endpoint api_key byok"},
	{
		"providers.venice", "Venice, the private plane.",
		"base_url api_key diem_staked default_privacy_tier attestation_pubkey characters cache multimodal timeout_ms max_retries " +
			"creditRatePerVvv dailyUsdcRate web_search_enabled web_search_budget_per_cycle_usdc sealed_testament integration_phase_attestation",
	},
	{
		"providers.bankr", "Bankr, self-funding inference.",
		"endpoint api_key wallet subsystems auto_topup auto_topup_amount_usd auto_topup_threshold_usd auto_topup_token",
	},
	{"providers.direct", "Users' own keys, without pipeline and spread.", "keys"},
	{"inference.provider_mode", "Which of Venice and Bardo serves what.", ""},
	{"inference.dream_provider", "Who serves dreams.", ""},
	{"inference.on_privacy_exhausted", "What happens when private inference is used up.", ""},
	{"inference.tiers", "The models of the tiers.", ""},
	{"inference.profiles", "Inference profiles of subsystems.", ""},
	{"inference.embeddings", "Who makes embeddings.", ""},
	{"inference.structured_outputs", "Structured outputs.", "enabled prefer_schema_enforcement validation retry_on_validation_failure max_retries"},
	{"inference.web_search_enabled", "Search by Venice.", ""},
	{"inference.web_search_budget_per_cycle_usdc", "What Venice may spend on search.", ""},
	{"inference.sealed_testament", "Testaments that only their heirs can read.", ""},
	{"inference.integration_phase_attestation", "Attested dreams.", ""},
	{"inference.caching.auto_cache_control", "Marks for a provider's prompt cache.", ""},
	{"inference.caching.prompt_cache_key_prefix", "Keys for a provider's prompt cache.", ""},
	{"inference.caching.threshold", "How alike two questions must be for the semantic cache.", ""},
	{"pipeline.default", "Which layers run.", ""},
	{"pipeline.semantic", "The semantic cache.", ""},
	{"pipeline.injection", "Detection of injected instructions.", "policy threshold"},
	{"pipeline.pii", "Masking of personal data.", "policy patterns"},
	{"pipeline.compression", "Compression of histories.", ""},
	{"pipeline.tools", "Pruning of tools.", "map"},
	{"pipeline.governor", "Control of the pipeline by measured gain.", ""},
	{"billing.critical_reserve_usd", "Part of a balance kept for critical subsystems.", ""},
	{"billing.tiers", "Plans and their spreads.", ""},
	{"billing.x402", "Payment per request.", "network rpc facilitator pay_to asset"},
	{"store.cache", "Store of cached answers.", ""},
	{"store.vectors", "Store of embeddings.", ""},
	{"telemetry.otlp", "OpenTelemetry collector.", ""},
	{"telemetry.events", "Sink of events.", ""},
}

func findLater(key string) *laterKey {
	i := slices.IndexFunc(laterKeys, func(l laterKey) bool { return l.key == key })
	if i < 0 {
		return nil
	}
	return &laterKeys[i]
}

func isLater(key string) bool { return findLater(key) != nil }

// laterBelow names the later keys directly below a key.
func laterBelow(key string) []string {
	var out []string
	for _, l := range laterKeys {
		if name, ok := strings.CutPrefix(l.key, join(key, "")); ok && !strings.Contains(name, ".") {
			out = append(out, name)
		}
	}
	return out
}

// later accepts a key that nothing acts on, and says so.
func (d *decoder) later(key string, e entry) {
	d.warn(e.at, key, "accepted, but this version does not act on it")
	l := findLater(key)
	if l.below == "" || e.value.kind == null {
		return
	}
	if e.value.kind != table {
		d.fail(e.value.at, key, table.String(), "%s", e.value.kind)
		return
	}
	known := strings.Fields(l.below)
	for _, sub := range e.value.keys {
		if slices.Contains(known, sub.name) {
			continue
		}
		if like := near.Names(sub.name, known, 1); len(like) > 0 {
			d.fail(sub.at, join(key, sub.name), like[0], "unknown key")
			continue
		}
		d.fail(sub.at, join(key, sub.name), "one of "+strings.Join(known, ", "), "unknown key")
	}
}
