package classifier_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"bardo.money/gateway/extproc/classifier"
	"bardo.money/gateway/models"
	"bardo.money/gateway/policy/classify"
)

// scripted is a model that answers what it is told.
type scripted struct {
	models.Embedder

	tag    string
	vector []float32
	err    error
	waits  bool
}

func (s scripted) Tag() string { return s.tag }

func (s scripted) Embed(ctx context.Context, _ string) ([]float32, error) {
	if s.waits {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.vector, s.err
}

func TestR11AClassifierThatCannotSayWhatSaysWhy(t *testing.T) {
	set, err := classify.Prototypes()
	if err != nil {
		t.Fatal(err)
	}
	const english = "What is the capital of Australia?"
	vector := make([]float32, 384)
	for _, row := range []struct {
		about, prompt string
		model         scripted
		why           string
	}{
		{"it judges", english, scripted{tag: set.Tag, vector: vector}, ""},
		{"another language", "¿Cuál es la capital?", scripted{tag: set.Tag, vector: vector}, "foreign"},
		{"another model", english, scripted{tag: "x", vector: vector}, "another-model"},
		{"a vector of another size", english, scripted{tag: set.Tag, vector: vector[:3]}, "another-model"},
		{"no model", english, scripted{err: fmt.Errorf("%w: x", models.ErrOff)}, "off"},
		{"a full queue", english, scripted{err: models.ErrBusy}, "busy"},
		{"a slow model", english, scripted{waits: true}, "late"},
		{"a broken model", english, scripted{err: errors.New("x")}, "failed"},
	} {
		c := classifier.Classifier{Embedder: row.model, Set: set}
		r, why := c.Judge(t.Context(), row.prompt)
		if why != row.why || (r == nil) != (why != "") {
			t.Errorf("%s: %+v, %q", row.about, r, why)
		}
	}
}
