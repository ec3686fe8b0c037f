package config

import (
	"fmt"
	"time"

	"bardo.money/gateway/internal/rule"
)

// Firewall configures the rules of tools.
type Firewall struct {
	Shadow bool           `key:"shadow" default:"false" doc:"Nothing is removed or refused; what would be is recorded."`
	Rules  []FirewallRule `key:"rules" doc:"The rules. A tool, or a call, has to be allowed by all rules that apply to its request."`
}

// FirewallRule is one rule.
type FirewallRule struct {
	ID         string   `key:"id" doc:"The rule's name in records, metrics and events."`
	Keys       []string `key:"keys" doc:"API keys whose requests the rule applies to, by id or name; * stands for any text. Without it, all requests."`
	Tiers      []string `key:"tiers" oneof:"free pro golem" doc:"Plans of keys that the rule applies to. Without it, all."`
	Subsystems []string `key:"subsystems" doc:"Subsystems that the rule applies to; * stands for any text. Without it, all requests."`

	Allow []string `key:"allow" doc:"Tools that may be offered and called; * stands for any text. Without it, all; an empty list allows none."`
	Deny  []string `key:"deny" doc:"Tools that may not be offered or called, though allow names them."`

	Tools          []string `key:"tools" doc:"Tools whose calls check_arguments, schema and condition are about; * stands for any text. Without it, all."`
	CheckArguments bool     `key:"check_arguments" default:"false" doc:"The arguments of a call must follow the schema with which the request offers its tool."`
	Schema         string   `key:"schema" doc:"A JSON Schema, as JSON, that the arguments of a call must follow."`
	Condition      string   `key:"condition" doc:"A condition in CEL that a call must meet, such as args.amount_usd <= 500.0. It can name tool, args, subsystem, golem_id, session_id, key, key_name, tier, regime, phase, task_class, security_class, vitality and model."`

	OnViolation string `key:"on_violation" default:"remove" oneof:"remove refuse flag" doc:"What happens to a call that the rule does not allow: it is taken out of the answer, with a text in its place; the client gets an error in place of the answer; or it is recorded."`
	Shadow      bool   `key:"shadow" default:"false" doc:"The rule removes and refuses nothing; what it would do is recorded."`
}

// Guardrail is a service of the operator's, called as a hook.
type Guardrail struct {
	Name     string        `key:"name" doc:"The hook's name in records, metrics and errors: letters, digits, dashes and underscores."`
	URL      URL           `key:"url" doc:"Where requests of the hook are sent, by POST, through Envoy."`
	Token    Secret        `key:"token" doc:"Sent to the hook as Authorization: Bearer."`
	When     []string      `key:"when" oneof:"request response" doc:"What the hook looks at: requests before a provider gets them, answers before the client does, or both. Answers are held until they are complete."`
	Timeout  time.Duration `key:"timeout" default:"2s" doc:"How long an answer of the hook is waited for, at most 10s."`
	OnError  string        `key:"on_error" default:"refuse" oneof:"refuse allow" doc:"What happens if the hook gives no verdict, or may not see the request: the request ends with an error, or it goes on."`
	Shadow   bool          `key:"shadow" default:"false" doc:"The hook is called, and its verdicts are recorded, but nothing is refused or replaced."`
	Private  bool          `key:"private" default:"false" doc:"The hook may see private requests (security_class: private, and those for attested or sealed inference)."`
	MaxBytes int           `key:"max_bytes" default:"1048576" min:"1024" max:"33554432" doc:"Most bytes that are sent to the hook, and read from it. A request with more counts as one without a verdict."`

	Profiles   []string `key:"profiles" oneof:"minimal fast standard full" doc:"Pipeline profiles whose requests the hook looks at. Without it, all."`
	Subsystems []string `key:"subsystems" doc:"Subsystems whose requests the hook looks at; * stands for any text. Without it, all requests."`
	Keys       []string `key:"keys" doc:"API keys whose requests the hook looks at, by id or name; * stands for any text. Without it, all."`
}

// Limits of rules and hooks.
const (
	maxRules       = 256
	maxGuardrails  = 16
	maxQuotas      = 32
	maxHookTimeout = 10 * time.Second
)

var ruleName = pattern(`^[A-Za-z0-9][A-Za-z0-9_-]{0,47}$`)

const ruleNameForm = "letters, digits, dashes and underscores, at most 48"

// checkFirewall parses the rules as the layer does.
func (d *decoder) checkFirewall(f *Firewall) {
	if len(f.Rules) > maxRules {
		d.problem("pipeline.firewall.rules", fmt.Sprintf("at most %d", maxRules), "%d rules", len(f.Rules))
	}
	seen := map[string]bool{}
	for i := range f.Rules {
		r, key := &f.Rules[i], fmt.Sprintf("pipeline.firewall.rules[%d]", i)
		d.checkRuleName(key+".id", r.ID, seen)
		if r.Allow == nil && len(r.Deny) == 0 && !r.CheckArguments && r.Schema == "" && r.Condition == "" {
			d.problem(key, "allow, deny, check_arguments, schema or condition", "the rule allows everything")
		}
		if len(r.Tools) > 0 && !r.CheckArguments && r.Schema == "" && r.Condition == "" {
			d.problem(key+".tools", "check_arguments, schema or condition beside it, or allow in its place", "nothing is said about calls of these tools")
		}
		if r.Schema != "" {
			if _, err := rule.ParseSchema(r.Schema); err != nil {
				d.problem(key+".schema", "a JSON Schema", "%v", err)
			}
		}
		if r.Condition != "" {
			if _, err := rule.ParseCondition(r.Condition); err != nil {
				d.problem(key+".condition", "a condition in CEL, such as args.amount_usd <= 500.0", "%v", err)
			}
		}
	}
}

// maxQuota is the highest limit of a quota.
const maxQuota = 1e12

// checkQuotas parses the expressions as the gateway does.
func (d *decoder) checkQuotas(quotas []Quota) {
	if len(quotas) > maxQuotas {
		d.problem("limits.quotas", fmt.Sprintf("at most %d", maxQuotas), "%d quotas", len(quotas))
	}
	seen := map[string]bool{}
	for i := range quotas {
		q, key := &quotas[i], fmt.Sprintf("limits.quotas[%d]", i)
		d.checkRuleName(key+".name", q.Name, seen)
		if q.Window < time.Second || q.Window > 24*time.Hour || q.Window%time.Second != 0 {
			d.problem(key+".window", "whole seconds from 1s to 24h", "%v", q.Window)
		}
		if q.Limit < 1e-6 || q.Limit > maxQuota {
			d.problem(key+".limit", "a number from 0.000001 to 1e12", "%v", q.Limit)
		}
		const example = "an expression in CEL, such as input_tokens + 5 * output_tokens"
		if q.Cost == "" {
			d.problem(key+".cost", example, missing)
		} else if _, err := rule.ParseMeasure(q.Cost); err != nil {
			d.problem(key+".cost", example, "%v", err)
		}
		if q.When == "" {
			continue
		}
		if _, err := rule.ParseFilter(q.When); err != nil {
			d.problem(key+".when", "a condition in CEL, such as tier == 'free'", "%v", err)
		}
	}
}

func (d *decoder) checkRuleName(key, name string, seen map[string]bool) {
	switch {
	case !ruleName().MatchString(name):
		d.problem(key, ruleNameForm, "%q cannot be a name", name)
	case seen[name]:
		d.problem(key, "another name", "%q is given twice", name)
	}
	seen[name] = true
}

func (d *decoder) checkGuardrails(hooks []Guardrail) {
	if len(hooks) > maxGuardrails {
		d.problem("pipeline.guardrails", fmt.Sprintf("at most %d", maxGuardrails), "%d hooks", len(hooks))
	}
	seen := map[string]bool{}
	for i := range hooks {
		h, key := &hooks[i], fmt.Sprintf("pipeline.guardrails[%d]", i)
		d.checkRuleName(key+".name", h.Name, seen)
		d.checkHook(key, h.URL, h.Timeout, h.Token, "http://127.0.0.1:9400/check")
		if len(h.When) == 0 {
			d.problem(key+".when", "request, response, or both", missing)
		}
	}
}
