package structured

import (
	"bardo.money/gateway/internal/jsonx"
)

// Comparison is the result of comparing two answers to one request: where they agree, and which one is the more careful decision.
//
// The more careful answer is used as a whole. Fields of the two are never mixed: the result would be a decision that no model made, with the
// rationale of another one.
type Comparison struct {
	Fields    []Field // in the order of the schema's criteria, or of the first answer
	Stricter  Side
	DecidedBy string // path of the field that made it stricter; "" for Neither
}

// Field is one compared value of both answers. Free text is not compared.
type Field struct {
	Path          string    // such as layers.hard_shields.passed; [0] is an element of a list, [] all of them; "" is the whole answer
	Criterion     string    // its path in a built-in schema's criteria, where * stands for any name; "" for what the answers alone name
	First, Second jsonx.Raw // unchanged JSON, nil if absent
	Agree         bool
	Decides       bool // a difference here makes the decisions different
}

// Side is one of the two answers.
type Side uint8

// The sides. Neither means that neither answer is known to be the more careful one.
const (
	Neither Side = iota
	First
	Second
)

// Compare compares two answers. name is the name of a built-in schema, or "". For a built-in schema with criteria, those are compared, and
// where they have an order the stricter answer is known. For any other schema all comparable values are compared, and neither answer is
// stricter. Answers that are not JSON are compared as text. The result refers to the bytes of both answers.
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

// Agreed returns the number of fields that agree.
func (c *Comparison) Agreed() (n int) {
	for i := range c.Fields {
		if c.Fields[i].Agree {
			n++
		}
	}
	return n
}

// Same reports whether both answers are the same decision: all fields with Decides agree.
func (c *Comparison) Same() bool {
	for i := range c.Fields {
		if c.Fields[i].Decides && !c.Fields[i].Agree {
			return false
		}
	}
	return true
}

// compareDecisions compares two answers by criteria. The first criterion by which one answer is stricter decides.
func compareDecisions(weights []criterion, a, b jsonx.Value) (c Comparison) {
	ordered := false
	for i := range weights {
		ordered = ordered || weights[i].stricterIs != 0
	}
	for i := range weights {
		w := &weights[i]
		from := len(c.Fields)
		for _, p := range w.pairs(a, b) {
			if !p.a.Exists() && !p.b.Exists() {
				continue
			}
			c.Fields = append(c.Fields, Field{
				Path: p.path, Criterion: w.path, First: p.a.Raw, Second: p.b.Raw, Agree: w.agree(p.a, p.b), Decides: w.stricterIs != 0 || !ordered,
			})
		}
		if c.Stricter == Neither {
			if c.Stricter = w.stricter(c.Fields[from:], a, b); c.Stricter != Neither {
				c.DecidedBy = w.path
			}
		}
	}
	return c
}

// stricter returns the side that is the more careful one by a criterion; Neither if all its fields agree.
func (w *criterion) stricter(fields []Field, a, b jsonx.Value) Side {
	agreed := true
	for i := range fields {
		agreed = agreed && fields[i].Agree
	}
	if agreed || w.stricterIs == 0 {
		return Neither
	}
	more, ok := w.difference(a, b)
	switch {
	case !ok || more == 0:
		return Neither
	case (more > 0) == (w.stricterIs == largest):
		return First
	}
	return Second
}

// difference returns the sum of a − b over all values that the criterion's path matches; ok is false if one of them cannot be measured.
func (w *criterion) difference(a, b jsonx.Value) (more float64, ok bool) {
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
