// Package vocab reads the common parts of all tokenizer.json files: the frame of special tokens around a text, and the tokens that are found in a
// text before or after normalization. It does not know how words are split into tokens.
package vocab

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// File is a tokenizer.json. Truncation and padding are the caller's.
type File struct {
	Model         json.RawMessage `json:"model"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor struct {
		Type   string `json:"type"`
		Single []struct {
			SpecialToken *struct{ ID string }
			Sequence     *struct{ ID string }
		} `json:"single"`
		SpecialTokens map[string]struct {
			IDs []int32 `json:"ids"`
		} `json:"special_tokens"`
	} `json:"post_processor"`
	Added []Added `json:"added_tokens"`
}

// Added is a token that is matched literally in a text.
type Added struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"` // with the white space before it
	RStrip     bool   `json:"rstrip"` // with the white space after it
	Normalized bool   `json:"normalized"`
}

// Parse reads a tokenizer.json.
func Parse(b []byte) (*File, error) {
	f := new(File)
	if err := json.Unmarshal(b, f); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	for _, a := range f.Added {
		if a.SingleWord || a.Content == "" {
			return nil, fmt.Errorf("tokenizer: added token %q: whole words are not supported", a.Content)
		}
	}
	return f, nil
}

// Frame returns the special tokens before and after a text.
func (f *File) Frame() (before, after int32, err error) {
	p := &f.PostProcessor
	if p.Type != "TemplateProcessing" || len(p.Single) != 3 || p.Single[0].SpecialToken == nil || p.Single[1].Sequence == nil || p.Single[2].SpecialToken == nil {
		return 0, 0, errors.New("tokenizer: expected a template of one token, the text, and one token")
	}
	first, last := p.SpecialTokens[p.Single[0].SpecialToken.ID].IDs, p.SpecialTokens[p.Single[2].SpecialToken.ID].IDs
	if len(first) != 1 || len(last) != 1 {
		return 0, 0, errors.New("tokenizer: the template's tokens have no ids")
	}
	return first[0], last[0], nil
}

// Splitter finds added tokens in a text. The zero value finds none. Safe for concurrent use.
type Splitter struct {
	tokens []Added // longest first
	begins [256]bool
}

// NewSplitter returns a Splitter of the added tokens for which keep returns true, with their content normalized.
func (f *File) NewSplitter(keep func(Added) bool, normalize func(string) string) *Splitter {
	s := new(Splitter)
	for _, a := range f.Added {
		if a.Content = normalize(a.Content); !keep(a) || a.Content == "" {
			continue
		}
		s.tokens = append(s.tokens, a)
		s.begins[a.Content[0]] = true
	}
	slices.SortStableFunc(s.tokens, func(a, b Added) int { return len(b.Content) - len(a.Content) })
	return s
}

// Cut returns the text before the first added token, the token's id, and the text after it; if there is none, ok is false and before is the whole
// text.
func (s *Splitter) Cut(text string) (before string, id int32, after string, ok bool) {
	for i := range len(text) {
		if !s.begins[text[i]] {
			continue
		}
		for j := range s.tokens {
			t := &s.tokens[j]
			if !strings.HasPrefix(text[i:], t.Content) {
				continue
			}
			before, after = text[:i], text[i+len(t.Content):]
			if t.LStrip {
				before = strings.TrimRightFunc(before, unicode.IsSpace)
			}
			if t.RStrip {
				after = strings.TrimLeftFunc(after, unicode.IsSpace)
			}
			return before, t.ID, after, true
		}
	}
	return text, 0, "", false
}
