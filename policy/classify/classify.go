// Package classify determines a prompt's domain, intent and difficulty from the vector that a local model computed for it. Each name has a prototype:
// a direction that labelled prompts of that name share, and others do not. It is pure: it receives the vector, and does not know the model. Vectors
// of another model than the prototypes' must not be classified, see Set.Tag.
package classify

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"bardo.money/gateway/policy/intent"
)

// Label is the known classification of a prompt.
type Label struct {
	Domain, Intent string
	Level          float64 // difficulty: index in Levels
}

// Domains are the subjects of prompts.
var Domains = []string{"defi", "code", "maths", "data", "science", "business", "writing", "general"}

// Intents are the kinds of tasks.
var Intents = []string{"ask", "create", "transform", "extract", "analyse", "act", "chat"}

// Levels are the difficulties, lowest first.
var Levels = []string{"trivial", "easy", "medium", "hard"}

// Kinds of prototypes.
const (
	Domain = "domain" // score near 1 for prompts of the domain, near 0 for others
	Intent = "intent"
	Level  = "level" // the score is the level
)

// Prototype is a direction: the score of a vector is their dot product plus the bias.
type Prototype struct {
	Kind   string    `json:"kind"`
	Name   string    `json:"name,omitempty"`
	Bias   float32   `json:"bias"`
	Vector []float32 `json:"-"`
}

// Set is a set of prototypes. Read-only.
type Set struct {
	Tag string // of the model whose vectors it applies to, see models.Embedder

	dims int
	all  []Prototype
}

//go:embed prototypes.bin
var prototypes []byte

// Prototypes returns the built-in set.
func Prototypes() (*Set, error) { return Read(prototypes) }

// header is the first line of a file of prototypes. Their vectors follow: float32, little-endian.
type header struct {
	Tag        string      `json:"tag"`
	Dims       int         `json:"dims"`
	Prototypes []Prototype `json:"prototypes"`
}

// Limits of a file.
const (
	maxPrototypes = 1000
	maxDims       = 4096
)

// Read reads a file of prototypes.
func Read(b []byte) (*Set, error) {
	line, rest, ok := bytes.Cut(b, []byte("\n"))
	var h header
	if err := json.Unmarshal(line, &h); err != nil || !ok {
		return nil, errors.Join(errors.New("prototypes: no header"), err)
	}
	if h.Dims < 1 || h.Dims > maxDims || len(h.Prototypes) > maxPrototypes || len(rest) != 4*h.Dims*len(h.Prototypes) {
		return nil, fmt.Errorf("prototypes: %d of %d dimensions in %d bytes", len(h.Prototypes), h.Dims, len(rest))
	}
	s := &Set{Tag: h.Tag, dims: h.Dims, all: h.Prototypes}
	for i := range s.all {
		v := make([]float32, h.Dims)
		for k := range v {
			v[k] = math.Float32frombits(binary.LittleEndian.Uint32(rest))
			rest = rest[4:]
		}
		s.all[i].Vector = v
	}
	return s, nil
}

// Write writes a file of prototypes, whose vectors must have one size.
func Write(w io.Writer, tag string, all []Prototype) error {
	b, err := json.Marshal(header{Tag: tag, Dims: len(all[0].Vector), Prototypes: all})
	if err != nil {
		return err
	}
	b = append(b, '\n')
	for i := range all {
		for _, x := range all[i].Vector {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
	}
	_, err = w.Write(b)
	return err
}

// Classify classifies a prompt by its vector. ok is false for a vector of another size.
func (s *Set) Classify(v []float32) (r intent.Reading, ok bool) {
	if len(v) != s.dims {
		return r, false
	}
	var domain, what best
	for i := range s.all {
		p := &s.all[i]
		switch score := p.score(v); p.Kind {
		case Domain:
			domain.add(p.Name, score)
		case Intent:
			what.add(p.Name, score)
		case Level:
			r.Level = min(max(score, 0), float64(len(Levels)-1))
		}
	}
	r.Domain, r.DomainMargin = domain.name, domain.margin()
	r.Intent, r.IntentMargin = what.name, what.margin()
	return r, true
}

// Near reports whether two sets have the same names and nearly the same prototypes: a quantised model's vectors depend slightly on the processor.
func (s *Set) Near(other *Set) bool {
	if len(s.all) != len(other.all) || s.dims != other.dims {
		return false
	}
	for i := range s.all {
		a, b := &s.all[i], &other.all[i]
		same := a.score(b.Vector) - float64(a.Bias)
		size := math.Sqrt((a.score(a.Vector) - float64(a.Bias)) * (b.score(b.Vector) - float64(b.Bias)))
		if a.Kind != b.Kind || a.Name != b.Name || same < 0.98*size {
			return false
		}
	}
	return true
}

func (p *Prototype) score(v []float32) float64 {
	sum := p.Bias
	for i := range v {
		sum += v[i] * p.Vector[i]
	}
	return float64(sum)
}

// best is the name with the highest score, and the margin to the next one.
type best struct {
	name          string
	first, second float64
	n             int
}

func (b *best) add(name string, score float64) {
	switch b.n++; {
	case b.n == 1:
		b.name, b.first, b.second = name, score, math.Inf(-1)
	case score > b.first:
		b.name, b.first, b.second = name, score, b.first
	default:
		b.second = max(b.second, score)
	}
}

func (b *best) margin() float64 {
	if b.n < 2 {
		return 0
	}
	return b.first - b.second
}

// Text returns the part of a prompt that is classified: its beginning, where the task usually is. A longer text would take the model too long.
func Text(prompt string) string {
	const maxBytes = 320 // bytes, about 64 tokens
	prompt = strings.TrimSpace(prompt)
	if at := strings.Index(prompt, "\n\n"); at > 0 {
		prompt = prompt[:at]
	}
	if len(prompt) > maxBytes {
		prompt = strings.ToValidUTF8(prompt[:maxBytes], "")
	}
	return prompt
}
