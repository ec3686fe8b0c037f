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

// checker is a compiled schema. It serves one check at a time, because the counter of steps is shared.
type checker struct {
	schema *jsonschema.Schema
	steps  budget
}

// maxSteps bounds the cost of one check. A step is one schema applied to one value, or some bytes of text matched with a pattern. A schema
// that refers to itself twice needs twice as many steps for each level of the answer.
const maxSteps = 1 << 18

// budget is the number of steps that a check may still take.
type budget struct{ left int }

// spend takes n steps. If none are left it ends the checking goroutine: the library has no way to abort a check.
func (b *budget) spend(n int) {
	if b.left -= n; b.left < 0 {
		runtime.Goexit()
	}
}

// schemaURL is the URL under which a schema is registered with the validator. Nothing is ever loaded from it.
const schemaURL = "bardo:///schema"

var errUncheckable = errors.New("the schema cannot be compiled: the validator failed")

// newChecker compiles a schema that is within the limits.
func newChecker(v jsonx.Value) (*checker, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(v.Raw))
	if err != nil {
		return nil, err
	}
	dropUnknownDraft(doc)
	replaceEnums(doc)
	c := &checker{}
	if !runIsolated(func() { err = c.compile(doc) }) {
		return nil, errUncheckable
	}
	return c, err
}

// dropUnknownDraft removes a $schema that names no published draft: the validator would refuse it.
func dropUnknownDraft(doc any) {
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
	lib.UseLoader(noLoader{})
	patterns := patterns{steps: &c.steps}
	lib.UseRegexpEngine(patterns.compile)
	lib.RegisterVocabulary(&jsonschema.Vocabulary{
		URL: "bardo:///steps",
		Compile: func(_ *jsonschema.CompilerContext, obj map[string]any) (jsonschema.SchemaExt, error) {
			return newCostKeyword(&c.steps, obj), nil
		},
	})
	lib.AssertVocabs()
	if err := lib.AddResource(schemaURL, doc); err != nil {
		return fmt.Errorf("the schema cannot be read: %w", err)
	}
	c.steps.left = maxSteps
	sch, err := lib.Compile(schemaURL)
	if err != nil {
		return schemaError(err)
	}
	c.schema = sch
	return nil
}

// noLoader refuses to load external schemas.
type noLoader struct{}

var errExternal = errors.New("external schemas are not loaded")

func (noLoader) Load(string) (any, error) { return nil, errExternal }

// check validates a decoded value. ok is false if the check exceeded its steps.
func (c *checker) check(v any) (issues []string, ok bool) {
	c.steps.left = maxSteps
	ok = runIsolated(func() {
		err := c.schema.Validate(v)
		if e := (*jsonschema.ValidationError)(nil); errors.As(err, &e) {
			issues = problems(e)
		}
	})
	return issues, ok
}

// runIsolated calls f on its own goroutine and waits for it. It returns false if f panicked or ended its goroutine.
func runIsolated(f func()) (ended bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }() // a panic of the library must not end the process
		f()
		ended = true
	}()
	<-done
	return ended
}

// schemaError returns the first error of a schema, with its path.
func schemaError(err error) error {
	var invalid *jsonschema.SchemaValidationError
	if !errors.As(err, &invalid) {
		return fmt.Errorf("the schema cannot be read: %s", strings.ReplaceAll(err.Error(), schemaURL, ""))
	}
	e := (*jsonschema.ValidationError)(nil)
	if !errors.As(invalid.Err, &e) {
		return fmt.Errorf("the schema is not valid: %s", strings.ReplaceAll(err.Error(), schemaURL, ""))
	}
	list := problems(e)
	if len(list) == 0 {
		return errors.New("the schema is not valid")
	}
	slices.Sort(list)
	return fmt.Errorf("the schema is not valid: %s", list[0])
}
