package sdk

import (
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestO01SDKsParseAnswersInAForm by their own helpers, whichever way a model has to be asked. The form refers to itself, and has bounds and
// optional members: what no provider enforces as it is.
func TestO01SDKsParseAnswersInAForm(t *testing.T) {
	t.Parallel()
	o := gateway.Options{Config: settings}
	var models []string
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic, fake.Gemini} {
		p := gateway.Provider{ID: "at-" + string(d), Fake: fake.Start(t, fake.Config{Dialect: d}), Format: string(d)}
		for way, can := range map[string]string{"enforced": "[tools, structured_outputs]", "tool": "[tools]", "prompted": "[vision]"} {
			id := string(d) + "-" + way
			models = append(models, id)
			p.Models = append(p.Models, gateway.Model{ID: id, More: "max_output: 8000, capabilities: " + can})
		}
		o.Providers = append(o.Providers, p)
	}
	g := gateway.Run(t, o)
	mustDrive(t, python("form_driver.py")(t), append(access(g), "BARDO_MODELS="+strings.Join(models, " "))...)
}
