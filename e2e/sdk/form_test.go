package sdk

import (
	"context"
	"os"
	"os/exec"
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
	ctx, cancel := context.WithTimeout(t.Context(), driverWithin)
	defer cancel()
	argv := python("form_driver.py")(t)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LANG=C.UTF-8", "BARDO_URL=" + g.URL, "BARDO_KEY=" + g.Key,
		"BARDO_MODELS=" + strings.Join(models, " "),
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
