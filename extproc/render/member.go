package render

import (
	"encoding/json"

	"bardo.money/gateway/extproc/reasoning"
)

// Member is the JSON of the object that stands beside an answer: its reasoning. For a page its content is what a panel shows.
func Member(c *reasoning.Chain, v View) ([]byte, error) {
	shown := *c
	if v.Surface == Web {
		shown.Content = panel(c)
	}
	return json.Marshal(struct {
		Reasoning *reasoning.Chain `json:"reasoning"`
	}{&shown})
}

// panel is the Markdown of a page's panel: the thoughts, or that there were some; nil where there is nothing to open.
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
