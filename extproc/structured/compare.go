package structured

import (
	"bardo.money/gateway/internal/jsonx"
)

// Comparison is what two answers to one request have in common, and which of them is the more careful decision.
//
// The more careful answer is meant to be given as a whole. Fields of both are never mixed: the mixture would be a decision that no model
// came to, with a rationale that belongs to another one.
type Comparison struct {
	Fields   []Field // in the order of the form, else of the first answer
	Stricter Side
	By       string // the path of what made it stricter; "" for Neither
}

// Field is one comparable part of both answers. Prose is none: no two models word it alike.
type Field struct {
	Path          string    // from the top: layers.hard_shields.passed; a list's elements are [0], or [] for all of them; "" is the whole answer
	First, Second jsonx.Raw // as they came, nil where there is nothing
	Agree         bool
	Decides       bool // both answers come to the same decision only if they agree here
}

// Side is one of two answers.
type Side uint8

// The sides. Neither: no answer is known to be the more careful one.
const (
	Neither Side = iota
	First
	Second
)

// Compare compares two answers of a form of ours, by its name, or of any other form: "". What is no JSON is compared as text. Of forms of
// ours, what matters in a decision is compared, and which one is stricter is known, where the form has such an order; of all others, all
// that can be compared is, and neither is stricter. It keeps parts of both answers.
func Compare(form string, first, second []byte) Comparison {
	a, errA := jsonx.Parse(first)
	b, errB := jsonx.Parse(second)
	if errA != nil || errB != nil || !composite(a) || !composite(b) {
		return compareText(first, second)
	}
	if weights := decisions[form]; weights != nil {
		return compareDecisions(weights, a, b)
	}
	return compareAny(a, b)
}

func composite(v jsonx.Value) bool { return v.Kind() == jsonx.Object || v.Kind() == jsonx.Array }

// Agreed is how many fields agree.
func (c *Comparison) Agreed() (n int) {
	for i := range c.Fields {
		if c.Fields[i].Agree {
			n++
		}
	}
	return n
}

// Same reports whether both answers come to the same decision: all that decides agrees, whatever else may differ.
func (c *Comparison) Same() bool {
	for i := range c.Fields {
		if c.Fields[i].Decides && !c.Fields[i].Agree {
			return false
		}
	}
	return true
}

// compareDecisions compares what matters in a form of ours. The first thing in which one answer is stricter decides.
func compareDecisions(weights []weight, a, b jsonx.Value) (c Comparison) {
	ordered := false
	for i := range weights {
		ordered = ordered || weights[i].sign != 0
	}
	for i := range weights {
		w := &weights[i]
		from := len(c.Fields)
		for _, p := range w.pairs(a, b) {
			if !p.a.Exists() && !p.b.Exists() {
				continue
			}
			c.Fields = append(c.Fields, Field{
				Path: p.path, First: p.a.Raw, Second: p.b.Raw, Agree: w.agree(p.a, p.b), Decides: w.sign != 0 || !ordered,
			})
		}
		if c.Stricter == Neither {
			if c.Stricter = w.stricter(c.Fields[from:], a, b); c.Stricter != Neither {
				c.By = w.path
			}
		}
	}
	return c
}

// stricter is the side on which a weight of a form is the more careful one, where its fields do not all agree.
func (w *weight) stricter(fields []Field, a, b jsonx.Value) Side {
	agreed := true
	for i := range fields {
		agreed = agreed && fields[i].Agree
	}
	if agreed || w.sign == 0 {
		return Neither
	}
	more, ok := w.difference(a, b)
	switch {
	case !ok || more == 0:
		return Neither
	case (more > 0) == (w.sign == largest):
		return First
	}
	return Second
}

// difference is by how much a weighs more than b, over all that the weight's path matches; ok is false where one of them says nothing that
// can be weighed.
func (w *weight) difference(a, b jsonx.Value) (more float64, ok bool) {
	for _, p := range w.pairs(a, b) {
		x, okA := w.measure(p.a)
		y, okB := w.measure(p.b)
		if !okA || !okB {
			return 0, false
		}
		more += x - y
	}
	return more, true
}
