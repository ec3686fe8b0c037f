// Package pii finds personal data and secrets in texts, replaces them by placeholders, and puts the values back into an answer, wherever its stream is cut.
// It knows nothing of requests, dialects or providers.
package pii

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Type is what a value is: the name in its placeholder, in capitals.
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
	Postal     Type = "POSTAL_ADDRESS" // a street or a box with its place
	Name       Type = "PERSON_NAME"    // of a person: in members of JSON, and in Japanese behind a label or before an honorific
)

// The types of names, which a model finds.
const (
	Person       Type = "PERSON"
	Place        Type = "PLACE"
	Organization Type = "ORGANIZATION"
)

// lookalike is a text that could be taken for a placeholder. It is replaced, too, so that no placeholder in a masked text is the client's.
const lookalike Type = "LITERAL"

// Builtin are the built-in types, by falling priority: of two values that overlap, the one of the earlier type counts.
var Builtin = []Type{PrivateKey, SeedPhrase, Secret, Password, IBAN, Card, SSN, Email, Phone, EVMAddress, IP, Postal, Name}

// Default are the types that are masked unless the tenant says otherwise: an agent needs addresses on a chain as they are.
var Default = []Type{PrivateKey, SeedPhrase, Secret, Password, IBAN, Card, SSN, Email, Phone, IP, Postal, Name}

// Forbidden reports whether values of the type must not leave the gateway, not even as placeholders.
func (t Type) Forbidden() bool { return t == PrivateKey || t == SeedPhrase }

// priority is the rank of a type in overlaps, 0 first. The types of operators and models come last but before look-alikes.
func (t Type) priority() int {
	if t == lookalike {
		return len(Builtin) + 1
	}
	if i := slices.Index(Builtin, t); i >= 0 {
		return i
	}
	return len(Builtin)
}

// Span is a value in a text, by byte offsets, End excluded.
type Span struct {
	Start, End int
	Type       Type
	Confidence float32 // 1: a checksum or an unmistakable form; 0.5: context alone
}

// Detector finds values: the built-in ones, an operator's patterns, or a model for names. Find appends spans to out, which may overlap and be in any order;
// spans outside of the text are ignored. An error means that nothing is known of the text. Safe for concurrent use.
type Detector interface {
	Find(ctx context.Context, text string, out []Span) ([]Span, error)
}

// Scanner asks several detectors. The zero value finds nothing. Safe for concurrent use.
type Scanner struct {
	detectors []Detector
}

// NewScanner returns a scanner that asks detectors in turn.
func NewScanner(detectors ...Detector) *Scanner { return &Scanner{detectors: detectors} }

// Find returns the values of a text in their order, without overlaps.
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

// Resolve removes overlaps: of two spans that overlap, the one of the higher priority stays, of the same priority the longer one, then the earlier one.
// Empty spans, and those outside of a text of n bytes, are removed. The result is sorted, and resolving it again changes nothing.
func Resolve(spans []Span, n int) []Span {
	spans = slices.DeleteFunc(slices.Clone(spans), func(s Span) bool { return s.Start < 0 || s.End > n || s.Start >= s.End || s.Type == "" })
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Or(cmp.Compare(a.Start, b.Start), byRank(a, b)) })
	var kept []Span
	for len(spans) > 0 { // groups that do not touch each other are resolved apart
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

// byRank compares spans that overlap: which of them stays comes first.
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

// bitset has a bit for each byte of a part of a text.
type bitset []uint64

// words calls do with each word that has bits of [from, to), and with a mask of these, until do says no.
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
