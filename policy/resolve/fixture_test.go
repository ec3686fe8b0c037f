package resolve_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/goldentest"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/catalog/catalogtest"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/resolve"
)

var update = flag.Bool("update", false, "write the expected files anew")

// fixture is a configuration with a catalog of its own.
type fixture struct {
	name string
	cfg  *config.Config
	*resolve.Resolver
}

func readFixture(t testing.TB, name string) fixture {
	t.Helper()
	dir := filepath.Join("testdata", name)
	text, err := os.ReadFile(filepath.Join(dir, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	cfg, problems := config.Parse("config.yaml", text, func(string) (string, bool) { return "", false }, kinds...)
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	if text, err = os.ReadFile(filepath.Join(dir, "models.yaml")); err != nil {
		t.Fatal(err)
	}
	models, problems := config.ParseModels("models.yaml", text)
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	models.Vendors = catalogtest.Embedded().Vendors
	r := resolverOf(catalog.New(models), cfg)
	return fixture{name, cfg, r}
}

// intent is what a subsystem asks for, in an ordinary call. While staked credit lasts, it is used for dreams and death.
func (f fixture) intent(subsystem string) *policy.Intent {
	in := intent.Of(subsystem)
	in.InputTokens, in.OutputTokens = 4000, 2000
	in.DIEM = in.Subsystem == "dream" || in.Subsystem == "death"
	switch in.Subsystem {
	case "heartbeat_t1":
		in.First = f.cfg.Inference.Tiers["T1"].Provider
	case "heartbeat_t2":
		in.First = f.cfg.Inference.Tiers["T2"].Provider
	}
	return &in
}

// way writes a resolution as provider/model, with what it lacks.
func way(res *policy.Resolution) string {
	s := string(res.Provider) + "/" + string(res.Model)
	if len(res.Degraded) > 0 {
		s += " lacks " + strings.Join(res.Degraded, ", ")
	}
	return s
}

func ways(order []policy.Resolution) string {
	var out []string
	for i := range order {
		out = append(out, way(&order[i]))
	}
	return strings.Join(out, "; ")
}

// table writes who serves each subsystem, and who does not.
func (f fixture) table(subsystems []string) string {
	var b strings.Builder
	for _, s := range subsystems {
		d := f.Explain(f.intent(s))
		fmt.Fprintf(&b, "%s\n", s)
		for i := range d.Order {
			fmt.Fprintf(&b, "  %d %s: %s\n", i+1, way(&d.Order[i]), d.Order[i].Why)
		}
		for _, no := range d.Refused {
			fmt.Fprintf(&b, "  - %s %s: %s\n", no.Provider, no.Model, no.Reason)
		}
		if d.Err != nil {
			fmt.Fprintf(&b, "  ! %v\n", d.Err)
		}
	}
	return b.String()
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	goldentest.Compare(t, path, got, *update)
}

// written are the first choices of the expected tables (D-13), in their order.
var written = []struct {
	fixture string
	rows    [][2]string
}{
	{"typical", [][2]string{
		{"heartbeat_t0", ""},
		{"heartbeat_t1", "blockrun/claude-haiku-4-5"},
		{"heartbeat_t2", "blockrun/claude-opus-4-6"},
		{"risk", "blockrun/claude-opus-4-6"},
		{"dream", "venice/deepseek-r1"},
		{"daimon", "venice/llama-3.3-70b"},
		{"daimon_complex", "venice/deepseek-r1"},
		{"curator", "blockrun/claude-sonnet-4-6"},
		{"playbook", "direct/openai/gpt-5.4"},
		{"operator", "blockrun/claude-opus-4-6"},
		{"death", "venice/deepseek-r1"},
		{"session_compact", "blockrun/claude-sonnet-4-6"},
	}},
	{"minimal", [][2]string{
		{"heartbeat_t0", "blockrun/nvidia-gpt-oss-120b"},
		{"heartbeat_t1", "blockrun/gemini-3-flash"},
		{"heartbeat_t2", "blockrun/claude-opus-4-6"},
		{"risk", "blockrun/claude-opus-4-6"},
		{"dream", "blockrun/deepseek-r1"},
		{"daimon", "blockrun/gemini-3-flash"},
		{"curator", "blockrun/claude-sonnet-4-6"},
		{"playbook", "blockrun/claude-sonnet-4-6"},
		{"operator", "blockrun/claude-opus-4-6"},
		{"death", "blockrun/deepseek-r1"},
	}},
	{"full", [][2]string{
		{"heartbeat_t0", "direct/local/qwen3-7b"},
		{"heartbeat_t1", "blockrun/gemini-3-flash"},
		{"heartbeat_t2", "blockrun/claude-opus-4-6"},
		{"risk", "blockrun/claude-opus-4-6"},
		{"dream", "venice/deepseek-r1"},
		{"daimon", "venice/llama-3.3-70b"},
		{"curator", "blockrun/claude-sonnet-4-6"},
		{"context", "openrouter/qwen-plus"},
		{"playbook", "direct/openai/gpt-5.4"},
		{"operator", "bankr/claude-opus-4-6"},
		{"death", "venice/deepseek-r1"},
		{"session", "blockrun/claude-opus-4-6"},
	}},
}

func TestD13TablesComeOutAsWritten(t *testing.T) {
	for _, one := range written {
		t.Run(one.fixture, func(t *testing.T) {
			f := readFixture(t, one.fixture)
			var subsystems []string
			for _, row := range one.rows {
				subsystems = append(subsystems, row[0])
				d, first := f.Decide(f.intent(row[0])), ""
				if len(d.Order) > 0 {
					first = string(d.Order[0].Provider) + "/" + string(d.Order[0].Model)
				}
				if first != row[1] {
					t.Errorf("%s goes to %q, want %q", row[0], first, row[1])
				}
			}
			golden(t, filepath.Join("testdata", one.fixture, "route.golden"), f.table(subsystems))
		})
	}
}

// The ladders of X-12, each to its end.
func TestD13LaddersComeOutAsWritten(t *testing.T) {
	f := readFixture(t, "ladders")
	for _, row := range [][2]string{
		{"dream", "venice/deepseek-r1; blockrun/deepseek-r1 lacks privacy; openrouter/deepseek-r1 lacks privacy; " +
			"blockrun/claude-opus-4-6 lacks visible_thinking, privacy; openrouter/claude-opus-4-6 lacks visible_thinking, privacy"},
		{"risk", "blockrun/claude-opus-4-6; openrouter/claude-opus-4-6; blockrun/gpt-5.5 lacks interleaved_thinking, citations; " +
			"openrouter/gpt-5.5 lacks interleaved_thinking, citations"},
		{"context", "openrouter/qwen-plus; blockrun/claude-haiku-4-5; openrouter/claude-haiku-4-5"},
		{"death", "venice/deepseek-r1; blockrun/deepseek-r1 lacks privacy; openrouter/deepseek-r1 lacks privacy"},
	} {
		t.Run(row[0], func(t *testing.T) {
			if got := ways(f.Decide(f.intent(row[0])).Order); got != row[1] {
				t.Errorf("got\n\t%s\nwant\n\t%s", got, row[1])
			}
		})
	}
	golden(t, "testdata/ladders/route.golden", f.table([]string{"dream", "risk", "context", "death"}))
}
