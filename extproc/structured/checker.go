package structured

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"bardo.money/gateway/internal/jsonx"
)

// checker is a schema compiled, for one check at a time.
type checker struct {
	schema *jsonschema.Schema
	steps  budget
}

// mostSteps is what one check may cost: a step is a schema applied to a value, or some bytes of a text matched with a pattern. A schema
// that refers to itself in two ways at once takes twice as many for each level of the answer.
const mostSteps = 1 << 18

// budget counts the steps of a check down.
type budget struct{ left int }

// spend takes n steps. When there are none left it ends the goroutine that checks, for the library has no other way out of a
// check that does not end.
func (b *budget) spend(n int) {
	if b.left -= n; b.left < 0 {
		runtime.Goexit()
	}
}

// place is where the schema is told to be. It names no place that could be asked.
const place = "bardo:///schema"

var errUncheckable = errors.New("the schema cannot be read: it is beyond what the validator takes")

// newChecker compiles a schema that is within the bounds.
func newChecker(v jsonx.Value) (*checker, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(v.Raw))
	if err != nil {
		return nil, err
	}
	dropForeign(doc)
	countEnums(doc)
	c := &checker{}
	if !alone(func() { err = c.compile(doc) }) {
		return nil, errUncheckable
	}
	return c, err
}

// dropForeign takes away a $schema that names no draft that the validator knows: it says nothing of the form.
func dropForeign(doc any) {
	m, ok := doc.(map[string]any)
	if !ok {
		return
	}
	if s, ok := m["$schema"].(string); !ok || !strings.Contains(s, "//json-schema.org/draft") {
		delete(m, "$schema")
	}
}

func (c *checker) compile(doc any) error {
	lib := jsonschema.NewCompiler()
	lib.DefaultDraft(jsonschema.Draft2020)
	lib.AssertFormat()
	lib.UseLoader(nothing{})
	patterns := patterns{steps: &c.steps}
	lib.UseRegexpEngine(patterns.compile)
	lib.RegisterVocabulary(&jsonschema.Vocabulary{
		URL: "bardo:///steps",
		Compile: func(_ *jsonschema.CompilerContext, obj map[string]any) (jsonschema.SchemaExt, error) {
			return newStep(&c.steps, obj), nil
		},
	})
	lib.AssertVocabs()
	if err := lib.AddResource(place, doc); err != nil {
		return fmt.Errorf("the schema cannot be read: %w", err)
	}
	c.steps.left = mostSteps
	sch, err := lib.Compile(place)
	if err != nil {
		return schemaFault(err)
	}
	c.schema = sch
	return nil
}

// nothing loads no schema from anywhere.
type nothing struct{}

var errOutside = errors.New("nothing outside of the schema is read")

func (nothing) Load(string) (any, error) { return nil, errOutside }

// check is what is wrong with a value that decode made. ok is false if the check was too much.
func (c *checker) check(v any) (issues []string, ok bool) {
	c.steps.left = mostSteps
	ok = alone(func() {
		err := c.schema.Validate(v)
		if e := (*jsonschema.ValidationError)(nil); errors.As(err, &e) {
			issues = problems(e)
		}
	})
	return issues, ok
}

// alone calls f on a goroutine of its own, and waits for it. It is false if f did not come to its end.
func alone(f func()) (ended bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }() // a fault of the library with one schema is not to end the program
		f()
		ended = true
	}()
	<-done
	return ended
}

// schemaFault is the first thing that is wrong with a schema, with its place in it.
func schemaFault(err error) error {
	var invalid *jsonschema.SchemaValidationError
	if !errors.As(err, &invalid) {
		return fmt.Errorf("the schema cannot be read: %s", strings.ReplaceAll(err.Error(), place, ""))
	}
	e := (*jsonschema.ValidationError)(nil)
	if !errors.As(invalid.Err, &e) {
		return fmt.Errorf("the schema is not valid: %s", strings.ReplaceAll(err.Error(), place, ""))
	}
	list := problems(e)
	if len(list) == 0 {
		return errors.New("the schema is not valid")
	}
	slices.Sort(list)
	return fmt.Errorf("the schema is not valid: %s", list[0])
}
