package render

import (
	"encoding/json"

	"bardo.money/gateway/extproc/reasoning"
)

// Member returns the JSON object with the reasoning that is attached to an answer. For Web its content is Markdown for a panel.
func Member(c *reasoning.Chain, v View) ([]byte, error) {
	shown := *c
	if v.Surface == Web {
		shown.Content = panel(c)
	}
	return json.Marshal(struct {
		Reasoning *reasoning.Chain `json:"reasoning"`
	}{&shown})
}

// panel returns the Markdown of a web page's panel: the reasoning, or a notice of hidden reasoning; nil without reasoning.
func panel(c *reasoning.Chain) *string {
	if c.Visibility == reasoning.None {
		return nil
	}
	text := Notice(c.Tokens, c.Estimated)
	if c.Content != nil && *c.Content != "" {
		text = Markdown(*c.Content)
	}
	return &text
}
