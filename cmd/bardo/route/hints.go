package route

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// hintFlag is the flag of a hint.
type hintFlag struct {
	name  string
	kind  string   // text, int, number, bool or list
	oneOf []string // for text: the allowed values, if they are a closed set
	doc   string
}

// hintFlags has a flag for each hint (D-03), in kebab case.
var hintFlags = []hintFlag{
	{"golem-id", "text", nil, "the agent's id"},
	{"subsystem", "text", nil, "the component of the agent that sends the request"},
	{"tick", "int", nil, "the number of its heartbeat"},
	{"tick-type", "text", nil, "the kind of its heartbeat"},
	{"vitality", "number", nil, "how much of its lifetime or budget is left, 0 to 1"},
	{"phase", "text", []string{"thriving", "stable", "conservation", "declining", "desperate", "terminal"}, "the name of a range of vitality"},
	{"regime", "text", nil, "the market's state"},
	{"task-class", "text", nil, "the kind of task"},
	{"security-class", "text", []string{"standard", "confidential", "private"}, "how confidential the prompt is"},
	{"session-id", "text", nil, "the session"},
	{"surface", "text", []string{"api", "tui", "telegram", "discord", "web"}, "where the answer is shown"},
	{"dream-cycle-id", "text", nil, "the dream's cycle"},
	{"dali-step", "int", nil, "step of the hypnagogic schedule"},
	{"dali-total-steps", "int", nil, "steps of the hypnagogic schedule"},
	{"dali-cycle", "int", nil, "cycle of the hypnagogic schedule"},
	{"scenario", "text", nil, "entities and times, as JSON"},
	{"pipeline", "text", []string{"minimal", "fast", "standard", "full"}, "the layers of context engineering"},
	{"require", "list", nil, "a feature that the model must have; repeat, or separate by commas"},
	{"prefer", "list", nil, "a feature that the model should have; repeat, or separate by commas"},
	{"quality", "text", []string{"minimum", "low", "medium", "high", "maximum"}, "the lowest quality class that will do"},
	{"cost-sensitivity", "number", nil, "how much cost matters, 0 to 1"},
	{"diem-available", "bool", nil, "there is staked Venice credit"},
	{"privacy-tier", "text", nil, "the lowest tier of privacy that will do"},
	{"role", "text", nil, "the role that it plays"},
	{"verify", "bool", nil, "have the answer verified by a second model"},
	{"escalate", "text", []string{"auto", "off"}, "use tier T2 where the answer of tier T1 asks for it"},
	{"hedge", "text", []string{"auto", "off"}, "call a second candidate if the first is slow"},
	{"daily-budget-usd", "number", nil, "the most that it may spend in a day"},
	{"induction-step", "int", nil, "step of the induction"},
	{"rem-call", "int", nil, "the number of the call in a REM phase"},
	{"max-latency-ms", "int", nil, "the longest time to the first token"},
	{"no-cache", "bool", nil, "do not answer from the cache"},
	{"web-search", "bool", nil, "let the model search the web"},
	{"tee", "bool", nil, "only providers that run in attested hardware"},
	{"profile", "text", nil, "parts of an inference profile, as JSON"},
}

// header is the hint's header in a request.
func (h hintFlag) header() string { return hintHeader + h.name }

const hintHeader = "x-bardo-"

func addHintFlags(c *cobra.Command) {
	for _, h := range hintFlags {
		doc := "hint: " + h.doc
		if h.oneOf != nil {
			doc += " (" + strings.Join(h.oneOf, ", ") + ")"
		}
		switch h.kind {
		case "int":
			c.Flags().Int64(h.name, 0, doc)
		case "number":
			c.Flags().Float64(h.name, 0, doc)
		case "bool":
			c.Flags().Bool(h.name, false, doc)
		case "list":
			c.Flags().StringArray(h.name, nil, doc)
		default:
			c.Flags().String(h.name, "", doc)
			cli.Completes(c, h.name, h.oneOf...)
		}
	}
}

// givenHints returns the hints of the command line as request headers.
func givenHints(c *cobra.Command) (out header.List) {
	for _, h := range hintFlags {
		f := c.Flags().Lookup(h.name)
		switch list, ok := f.Value.(interface{ GetSlice() []string }); {
		case !f.Changed:
		case ok:
			for _, value := range list.GetSlice() {
				out = append(out, header.Field{Name: h.header(), Value: value})
			}
		default:
			out = append(out, header.Field{Name: h.header(), Value: f.Value.String()})
		}
	}
	return out
}

func readHints(l header.List, into *policy.Hints) error {
	_, err := hint.FromHeaders(l, into)
	return err
}

// asFlag replaces the header's name in a fault by the flag's.
func asFlag(err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) {
		return err
	}
	rest, ok := cutPrefixFold(f.Public, hintHeader)
	if !ok {
		return err
	}
	name, problem, _ := strings.Cut(rest, ":")
	return errors.New("--" + strings.ToLower(name) + ":" + problem)
}

func cutPrefixFold(s, prefix string) (rest string, ok bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}
