package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// result is one line of a driver's output: who it is, or how a case went.
type result struct {
	Client, Version string // of the first line only

	Case      string
	OK        bool
	Detail    string
	Exception string // the class that the client raised, for errors
	Status    int    // that it carries; 0 without one
}

// report is what one run of a driver said.
type report struct {
	version string
	cases   map[string]result
}

// target is where a driver's calls go.
type target struct {
	client client
	served fake.Dialect // of the provider
	direct bool         // to the provider itself
}

// family starts the names of a provider's models.
func family(d fake.Dialect) string {
	switch d {
	case fake.Anthropic:
		return "claude"
	case fake.Gemini:
		return "gemini"
	default:
		return "gpt"
	}
}

// prefix is of this run's own models: what they remember, and who left them, no other run changes.
func (r target) prefix() string {
	p := family(r.served) + "-" + r.client.name
	if r.direct {
		p += "-direct"
	}
	return p
}

func (r target) model(behaviour string) string { return r.prefix() + "-" + behaviour }

// targets are a client's runs: through the gateway to a provider of its own dialect and to one of the other, and without the
// gateway.
func (c client) targets() []target {
	other := fake.OpenAI
	if c.dialect == other {
		other = fake.Anthropic
	}
	return []target{{c, c.dialect, false}, {c, other, false}, {c, c.dialect, true}}
}

// name is the target's in subtests.
func (r target) name() string {
	if r.direct {
		return r.client.name + " to its own provider"
	}
	return fmt.Sprintf("%s over %s", r.client.name, r.served)
}

// cases are what a driver must report for a target.
func (r target) cases() []string {
	names := []string{"chat", "stream", "dies"}
	if !r.direct {
		names = append(names, "base-url", "tools", "tools-stream", "loop", "thinks", "unicode", "unicode-tools", "large",
			"retry", "cancel", "heartbeat", "heartbeat2", "dies2")
	}
	for _, s := range statuses {
		names = append(names, "error-"+strconv.Itoa(s))
	}
	return names
}

const driverWithin = 5 * time.Minute

// drive runs the client's driver, which must report every case, each one well.
func (l *lab) drive(t *testing.T, r target) report {
	t.Helper()
	argv := r.client.argv(t)
	out, errs, err := runDriver(t, argv, l.environment(r)...)
	if err != nil {
		t.Errorf("%v: %v\n%s\n%s", argv, err, out, errs)
	}
	rep, err := read(strings.NewReader(out))
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, errs)
	}
	rep.check(t, r)
	return rep
}

// runDriver runs a client's driver for at most driverWithin, with an empty home and the given environment besides.
func runDriver(t *testing.T, argv []string, env ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), driverWithin)
	defer cancel()
	env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LANG=C.UTF-8"}, env...)
	if len(argv) > 1 && strings.HasSuffix(argv[1], ".py") {
		return pythons.run(ctx, t, argv, env)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = env
	if len(argv) > 1 {
		cmd.Env = append(cmd.Env, compiled(t))
	}
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// access is the environment that tells a driver where the gateway is, and its key.
func access(g *gateway.Gateway) []string {
	return []string{"BARDO_URL=" + g.URL, "BARDO_KEY=" + g.Key}
}

// mustDrive runs a driver that prints nothing to be read, and must succeed.
func mustDrive(t *testing.T, argv []string, env ...string) {
	t.Helper()
	if out, errs, err := runDriver(t, argv, env...); err != nil {
		t.Errorf("%v: %v\n%s%s", argv, err, out, errs)
	}
}

// read parses a driver's output.
func read(out io.Reader) (report, error) {
	rep := report{cases: map[string]result{}}
	for d := json.NewDecoder(out); ; {
		var line result
		switch err := d.Decode(&line); {
		case errors.Is(err, io.EOF):
			return rep, nil
		case err != nil:
			return rep, fmt.Errorf("after %d cases: %w", len(rep.cases), err)
		case line.Version != "":
			rep.version = line.Version
		default:
			if _, again := rep.cases[line.Case]; again {
				return rep, fmt.Errorf("case %q came twice", line.Case)
			}
			rep.cases[line.Case] = line
		}
	}
}

// check fails the test for every case that is missing, or did not go well.
func (rep report) check(t *testing.T, r target) {
	t.Helper()
	if rep.version == "" {
		t.Error("the driver did not say which version it drives")
	}
	for _, name := range r.cases() {
		_, ran := rep.cases[name]
		switch why := r.client.lacks[name]; {
		case ran && why != "":
			t.Errorf("%s ran, though the client is said to lack it: %s", name, why)
		case !ran && why == "":
			t.Errorf("%s did not run", name)
		}
	}
	for name, c := range rep.cases {
		t.Run(reported[name]+name, func(t *testing.T) {
			if !c.OK {
				t.Errorf("%s %s %d", c.Detail, c.Exception, c.Status)
			}
		})
	}
}

// reported are the edge cases that some of the cases come from.
var reported = map[string]string{
	"heartbeat": "K-40 ", "heartbeat2": "K-40 ", "cancel": "K-34 ", "dies": "K-46 ", "dies2": "K-46 ", "large": "K-50 ",
}
