package pii

import (
	"context"
	"encoding/json"
	"slices"

	"bardo.money/gateway/extproc/pipeline"
)

// inHints is the place, for clients, of the texts in hints.
const inHints = "the hint profile"

// searchHints searches the texts of a request's hints that providers get: those of an inference profile. They are not masked, but refused, since the request has
// members for all of them, in which values are masked.
func (l Layer) searchHints(ctx context.Context, x *pipeline.Exchange, f *finding) error {
	p := x.Hints.Profile
	if p == nil {
		return nil
	}
	n := len(f.values)
	texts := append(slices.Clone(p.Stop), p.PredictedOutput, p.PromptCacheKey, p.SchemaName)
	if len(p.Schema) > 0 {
		var schema any
		if err := json.Unmarshal(p.Schema, &schema); err != nil {
			return err
		}
		texts = appendStrings(texts, schema)
	}
	for _, s := range texts {
		if err := l.searchString(ctx, s, f); err != nil {
			return err
		}
	}
	f.inHints = len(f.values) > n
	if f.secretAt == "" && slices.ContainsFunc(f.values[n:], func(v value) bool { return v.t.Forbidden() }) {
		f.secretAt = inHints
	}
	return nil
}

// appendStrings appends the strings and names of JSON, in no particular order.
func appendStrings(texts []string, v any) []string {
	switch v := v.(type) {
	case string:
		return append(texts, v)
	case []any:
		for _, e := range v {
			texts = appendStrings(texts, e)
		}
	case map[string]any:
		for name, e := range v {
			texts = appendStrings(append(texts, name), e)
		}
	}
	return texts
}
