package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// hintFlag is one thing that an agent may say about itself.
type hintFlag struct {
	name  string
	kind  string   // text, int, number or bool
	oneOf []string // for text: the values that exist, where that is a closed set
	doc   string
}

// hintFlags are what an agent may say about itself (D-03), in kebab case; --require and --prefer stand in route.go, since what a
// candidate lacks of them is shown.
var hintFlags = []hintFlag{
	{"golem-id", "text", nil, "the agent's id"},
	{"subsystem", "text", nil, "the part of the agent that asks"},
	{"tick", "int", nil, "the number of its heartbeat"},
	{"tick-type", "text", nil, "the kind of its heartbeat"},
	{"vitality", "number", nil, "how much life it has left, 0 to 1"},
	{"phase", "text", []string{"thriving", "stable", "conservation", "declining", "desperate", "terminal"}, "its phase of life"},
	{"regime", "text", nil, "the market's state"},
	{"task-class", "text", nil, "the kind of task"},
	{"security-class", "text", []string{"standard", "confidential", "private"}, "how secret the prompt is"},
	{"session-id", "text", nil, "the session"},
	{"surface", "text", []string{"api", "tui", "telegram", "discord", "web"}, "where the answer is shown"},
	{"dream-cycle-id", "text", nil, "the dream's cycle"},
	{"dali-step", "int", nil, "step of the hypnagogic schedule"},
	{"dali-total-steps", "int", nil, "steps of the hypnagogic schedule"},
	{"dali-cycle", "int", nil, "cycle of the hypnagogic schedule"},
	{"scenario", "text", nil, "entities and times, as JSON"},
	{"pipeline", "text", []string{"minimal", "fast", "standard", "full"}, "the layers of context engineering"},
	{"quality", "text", []string{"minimum", "low", "medium", "high", "maximum"}, "the least quality class"},
	{"cost-sensitivity", "number", nil, "how much cost matters, 0 to 1"},
	{"diem-available", "bool", nil, "there is staked Venice credit"},
	{"privacy-tier", "text", nil, "the least tier of privacy"},
	{"role", "text", nil, "the role that it plays"},
	{"verify", "bool", nil, "have the answer verified by another model"},
	{"daily-budget-usd", "number", nil, "what it may spend in a day"},
	{"induction-step", "int", nil, "step of the induction"},
	{"rem-call", "int", nil, "the number of the call in a REM phase"},
	{"max-latency-ms", "int", nil, "the longest time to the first token"},
	{"no-cache", "bool", nil, "take no cached answer"},
	{"web-search", "bool", nil, "let the model search the web"},
	{"tee", "bool", nil, "only in attested hardware"},
	{"profile", "text", nil, "parts of an inference profile, as JSON"},
}

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
		default:
			c.Flags().String(h.name, "", doc)
			completes(c, h.name, h.oneOf...)
		}
	}
}

// noteUnusedHints checks the hints that were given, and says on stderr which of them change nothing.
func noteUnusedHints(c *cobra.Command) error {
	var unused []string
	for _, h := range hintFlags {
		if !c.Flags().Changed(h.name) {
			continue
		}
		if err := h.check(c); err != nil {
			return err
		}
		unused = append(unused, "--"+h.name)
	}
	for _, name := range []string{"require", "prefer"} { // what a model lacks of these is shown
		if c.Flags().Changed(name) {
			unused = append(unused, "--"+name)
		}
	}
	if len(unused) > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "note: this version does not choose by %s\n", strings.Join(unused, ", "))
	}
	return nil
}

// check refuses a value that is not one of a closed set. cobra has read numbers and switches.
func (h hintFlag) check(c *cobra.Command) error {
	if h.oneOf == nil {
		return nil
	}
	value, err := c.Flags().GetString(h.name)
	if err != nil || slices.Contains(h.oneOf, value) {
		return err
	}
	return fmt.Errorf("--%s %q, expected one of %s", h.name, value, strings.Join(h.oneOf, ", "))
}
