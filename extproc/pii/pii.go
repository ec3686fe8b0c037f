// Package pii finds personal data and secrets in texts, replaces them with placeholders, and restores the values in an answer, however its stream is split. It
// knows no requests, dialects or providers.
package pii

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Type is the type of a value: the name in its placeholder, in capitals.
type Type string

// The built-in types.
const (
	PrivateKey Type = "PRIVATE_KEY" // of a wallet, or in PEM form
	SeedPhrase Type = "SEED_PHRASE" // BIP-39
	Secret     Type = "SECRET"      // a key or token of a service
	Password   Type = "PASSWORD"    // in a URL
	IBAN       Type = "IBAN"
	Card       Type = "CARD"
	SSN        Type = "SSN" // US social security number
	Email      Type = "EMAIL"
	Phone      Type = "PHONE"
	EVMAddress Type = "EVM_ADDRESS"
	IP         Type = "IP"             // a public address
	Postal     Type = "POSTAL_ADDRESS" // a street or PO box with its place
	Name       Type = "PERSON_NAME"    // of a person: in members of JSON, and in Japanese after a label or before an honorific
)

// The types of names that a model finds.
const (
	Person       Type = "PERSON"
	Place        Type = "PLACE"
	Organization Type = "ORGANIZATION"
)

// lookalike is a client's text in the form of a placeholder. It is replaced, too, so that all placeholders in a masked text are the vault's.
const lookalike Type = "LITERAL"

// Builtin are the built-in types, by descending priority: of overlapping values, the one of the earlier type is kept.
var Builtin = []Type{PrivateKey, SeedPhrase, Secret, Password, IBAN, Card, SSN, Email, Phone, EVMAddress, IP, Postal, Name}

// Default are the types that are masked by default. Addresses on a chain are not among them: agents need them.
var Default = []Type{PrivateKey, SeedPhrase, Secret, Password, IBAN, Card, SSN, Email, Phone, IP, Postal, Name}

// Forbidden reports whether requests with values of the type are refused, even masked.
func (t Type) Forbidden() bool { return t == PrivateKey || t == SeedPhrase }

// priority returns the rank of a type in overlaps, 0 first. Operators' and models' types come after the built-in ones, and look-alikes last.
func (t Type) priority() int {
	if t == lookalike {
		return len(Builtin) + 1
	}
	if i := slices.Index(Builtin, t); i >= 0 {
		return i
	}
	return len(Builtin)
}

// Span is the location of a value in a text, in bytes; End is exclusive.
type Span struct {
	Start, End int
	Type       Type
	Confidence float32 // 1: a checksum or an unambiguous format; 0.5: only context
}

// Detector finds values: the built-in types, an operator's patterns, or names by a model. Find appends spans to out, in any order, which may overlap; spans outside
// of the text are ignored. After an error the text counts as unscanned. Safe for concurrent use.
type Detector interface {
	Find(ctx context.Context, text string, out []Span) ([]Span, error)
}

// Scanner combines several detectors. The zero value finds nothing. Safe for concurrent use.
type Scanner struct {
	detectors []Detector
}

// NewScanner returns a scanner with detectors.
func NewScanner(detectors ...Detector) *Scanner { return &Scanner{detectors: detectors} }

// Find returns the values of a text in order, without overlaps.
func (s *Scanner) Find(ctx context.Context, text string) ([]Span, error) {
	var spans []Span
	for _, d := range s.detectors {
		var err error
		if spans, err = d.Find(ctx, text, spans); err != nil {
			return nil, fmt.Errorf("detecting personal data: %w", err)
		}
	}
	return Resolve(spans, len(text)), nil
}

// Resolve removes overlaps: of overlapping spans, the one of the higher priority is kept, then the longer one, then the earlier one. Empty spans, and those outside
// of a text of n bytes, are removed. The result is sorted, and Resolve does not change it again.
func Resolve(spans []Span, n int) []Span {
	spans = slices.DeleteFunc(slices.Clone(spans), func(s Span) bool { return s.Start < 0 || s.End > n || s.Start >= s.End || s.Type == "" })
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Or(cmp.Compare(a.Start, b.Start), byRank(a, b)) })
	var kept []Span
	for len(spans) > 0 { // groups of overlapping spans are resolved separately
		size, end := 1, spans[0].End
		for size < len(spans) && spans[size].Start < end {
			end = max(end, spans[size].End)
			size++
		}
		kept = append(kept, resolveGroup(spans[:size])...)
		spans = spans[size:]
	}
	return kept
}

// byRank orders overlapping spans: the one that is kept comes first.
func byRank(a, b Span) int {
	return cmp.Or(
		cmp.Compare(a.Type.priority(), b.Type.priority()), cmp.Compare(b.End-b.Start, a.End-a.Start), cmp.Compare(a.Start, b.Start),
		cmp.Compare(a.Type, b.Type), cmp.Compare(b.Confidence, a.Confidence),
	)
}

func resolveGroup(group []Span) []Span {
	if len(group) == 1 {
		return group
	}
	first, end := group[0].Start, 0
	for _, s := range group {
		end = max(end, s.End)
	}
	taken := make(bitset, (end-first)/64+1)
	slices.SortFunc(group, byRank)
	kept := group[:0]
	for _, s := range group {
		if !taken.any(s.Start-first, s.End-first) {
			taken.set(s.Start-first, s.End-first)
			kept = append(kept, s)
		}
	}
	slices.SortFunc(kept, func(a, b Span) int { return cmp.Compare(a.Start, b.Start) })
	return kept
}

// bitset has one bit per byte of a part of a text.
type bitset []uint64

// words calls do with each word that has bits of [from, to), and the mask of these bits, until do returns false.
func (b bitset) words(from, to int, do func(word *uint64, mask uint64) bool) {
	for from < to {
		next := min(to, from&^63+64)
		mask := ^uint64(0) << (from & 63)
		if next&63 != 0 {
			mask &= 1<<(next&63) - 1
		}
		if !do(&b[from/64], mask) {
			return
		}
		from = next
	}
}

// any reports whether a bit of [from, to) is set.
func (b bitset) any(from, to int) (is bool) {
	b.words(from, to, func(w *uint64, mask uint64) bool { is = *w&mask != 0; return !is })
	return is
}

// set sets the bits of [from, to).
func (b bitset) set(from, to int) {
	b.words(from, to, func(w *uint64, mask uint64) bool { *w |= mask; return true })
}
