// Package driver holds what the Go drivers share: the protocol that they speak with the Go test, which README.md tells.
package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What the models say, as the Go test programs them.
const (
	Hello   = "Hello from the fake provider."
	See     = "Let me see."
	Sunny   = "It is sunny."
	Thought = "let me think"
	Tokens  = "tok0 tok1 tok2 "
	Large   = 1000 << 10 // characters of the large answer
)

// The tool that the models call.
const (
	Tool        = "get_weather"
	Description = "The weather of a city."
)

// Schema is of the tool's arguments.
var Schema = map[string]any{
	"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"},
}

// Target is where the calls go.
type Target struct {
	URL     string // without /v1
	Key     string
	Unicode string
	prefix  string
	direct  bool
}

// Open reads the target from the environment.
func Open() (Target, error) {
	t := Target{
		URL: os.Getenv("BARDO_URL"), Key: os.Getenv("BARDO_KEY"), prefix: os.Getenv("BARDO_PREFIX"), direct: os.Getenv("BARDO_DIRECT") != "",
	}
	if err := json.Unmarshal([]byte(os.Getenv("BARDO_UNICODE")), &t.Unicode); err != nil {
		return t, fmt.Errorf("BARDO_UNICODE: %w", err)
	}
	return t, nil
}

// Model is the one that behaves so.
func (t Target) Model(behaviour string) string { return t.prefix + "-" + behaviour }

// Prompt is the text of a request of more than 2 MiB.
func Prompt() string { return strings.Repeat("large ", 400_000) }

// KeyFor is the key that is refused with a status, or the good one: then the model's provider refuses.
func (t Target) KeyFor(status int) string {
	if key, ok := os.LookupEnv("BARDO_KEY_" + strconv.Itoa(status)); ok {
		return key
	}
	return t.Key
}

// Raised is what a client reported: the class of its error, and the status that the error carries.
type Raised struct {
	Exception string
	Status    int
}

// Case is one thing that a client must do.
type Case struct {
	Name string
	Run  func(ctx context.Context) (Raised, error)
}

// Do makes a case of what raises nothing.
func Do(name string, run func(ctx context.Context) error) Case {
	return Case{name, func(ctx context.Context) (Raised, error) { return Raised{}, run(ctx) }}
}

var statuses = []int{400, 401, 402, 403, 404, 413, 422, 429, 500, 502, 503, 504, 529}

// Errors are a case for every status: a stream is refused as a whole answer is.
func (t Target) Errors(ask func(ctx context.Context, key, model string, stream bool) (Raised, error)) []Case {
	cases := make([]Case, 0, len(statuses))
	for _, status := range statuses {
		cases = append(cases, Case{fmt.Sprintf("error-%d", status), func(ctx context.Context) (Raised, error) {
			whole, err := ask(ctx, t.KeyFor(status), t.Model(strconv.Itoa(status)), false)
			if err != nil {
				return whole, err
			}
			stream, err := ask(ctx, t.KeyFor(status), t.Model(strconv.Itoa(status)), true)
			return whole, errors.Join(err, Same(stream, whole))
		}})
	}
	return cases
}

const caseWithin = time.Minute

// Run runs the cases in order and prints how each went. Module is the client's, whose version was built in.
func (t Target) Run(module string, cases []Case) error {
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(map[string]any{"client": os.Getenv("BARDO_CLIENT"), "version": version(module)}); err != nil {
		return err
	}
	for _, c := range cases {
		if t.direct && !slices.Contains([]string{"chat", "stream", "dies"}, c.Name) && !strings.HasPrefix(c.Name, "error-") {
			continue
		}
		if err := out.Encode(c.line()); err != nil {
			return err
		}
	}
	return nil
}

func (c Case) line() map[string]any {
	ctx, cancel := context.WithTimeout(context.Background(), caseWithin)
	defer cancel()
	raised, err := c.Run(ctx)
	line := map[string]any{"case": c.Name, "ok": err == nil, "exception": raised.Exception, "status": raised.Status}
	if err != nil {
		line["detail"] = err.Error()
	}
	return line
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	return "?"
}

// Same is an error unless two values are equal.
func Same[T comparable](got, want T) error {
	if got != want {
		return fmt.Errorf("got %.500s, want %.500s", fmt.Sprintf("%#v", got), fmt.Sprintf("%#v", want))
	}
	return nil
}

// Call is a call of the tool, as a client shows it.
type Call struct{ ID, Name, Args string }

// Calls checks the calls of an answer: one for each city, in order, each with an id of its own.
func Calls(got []Call, cities ...string) error {
	if len(got) != len(cities) {
		return fmt.Errorf("%d calls, want %d: %+v", len(got), len(cities), got)
	}
	ids := map[string]bool{}
	for i, c := range got {
		var args struct{ City string }
		if err := json.Unmarshal([]byte(c.Args), &args); err != nil {
			return fmt.Errorf("arguments %q: %w", c.Args, err)
		}
		ids[c.ID] = true
		if err := errors.Join(Same(c.Name, Tool), Same(args.City, cities[i])); err != nil {
			return err
		}
	}
	return Same(len(ids), len(cities))
}
