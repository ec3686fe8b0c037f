// Package manifest describes the local models: their files and hashes, how their inputs are encoded, and the meaning of their outputs. It finds and
// checks the files on disk. It does not run models.
package manifest

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Kind is what a model does.
type Kind string

// The kinds of models.
const (
	Embedding Kind = "embedding" // text to a vector of length 1
	Injection Kind = "injection" // text to the probability that it contains instructions for a model
	Entities  Kind = "entities"  // text to its names of people, places and the like
)

// Manifest is a list of models, and their runtime. Read-only.
type Manifest struct {
	Runtime Runtime `yaml:"runtime"`
	Models  []Model `yaml:"models"`
}

// Runtime is the ONNX Runtime library.
type Runtime struct {
	Version string          `yaml:"version"`
	Licence string          `yaml:"licence"`
	Files   map[string]File `yaml:"files"` // by GOOS/GOARCH
}

// Library returns the runtime's file for this machine; ok is false if there is none.
func (r *Runtime) Library() (f File, ok bool) {
	f, ok = r.Files[runtime.GOOS+"/"+runtime.GOARCH]
	return f, ok
}

// Model is one model.
type Model struct {
	Name        string     `yaml:"name"`
	Kind        Kind       `yaml:"kind"`
	Licence     string     `yaml:"licence"`
	Dimensions  int        `yaml:"dimensions"` // of its output
	Threshold   float64    `yaml:"threshold"`  // minimum cosine or score that counts
	Window      int        `yaml:"window"`     // maximum tokens of one input, including special ones
	Overlap     int        `yaml:"overlap"`    // tokens shared by consecutive windows of a long text; 0: long texts are cut
	Output      string     `yaml:"output"`     // name in the graph
	Pooling     string     `yaml:"pooling"`    // mean: of the output's tokens, scaled to length 1; "": the output is the vector
	Prefix      string     `yaml:"prefix"`     // added to every text
	Head        string     `yaml:"head"`       // sigmoid: of the first output; softmax: of the second
	Temperature float64    `yaml:"temperature"`
	Degenerate  bool       `yaml:"degenerate"` // texts that mostly repeat one token score 0
	Labels      []string   `yaml:"labels"`     // for entities: the meaning of each output of a token, as O, B-TYPE or I-TYPE
	Tokenizer   string     `yaml:"tokenizer"`  // wordpiece or unigram
	Files       ModelFiles `yaml:"files"`
}

// ModelFiles are the files of a model.
type ModelFiles struct {
	Model     File `yaml:"model"`
	Tokenizer File `yaml:"tokenizer"`
}

// File is one file. SHA256 is empty if its hash is unknown: it can then only be used after bardo models install has recorded one.
type File struct {
	Name    string `yaml:"file"`
	SHA256  string `yaml:"sha256"`
	Address string `yaml:"address"` // the publisher's URL; "": built by make models
}

//go:embed models.yaml
var builtIn []byte

// BuiltIn returns the manifest of this program.
func BuiltIn() (*Manifest, error) { return Parse(builtIn) }

// Parse reads and checks a manifest.
func Parse(b []byte) (*Manifest, error) {
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	m := new(Manifest)
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("manifest of models: %w", err)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("manifest of models: %w", err)
	}
	return m, nil
}

// Model finds a model by name.
func (m *Manifest) Model(name string) (*Model, bool) {
	i := slices.IndexFunc(m.Models, func(x Model) bool { return x.Name == name })
	if i < 0 {
		return nil, false
	}
	return &m.Models[i], true
}

// Of lists the models of a kind; the first is the default.
func (m *Manifest) Of(kind Kind) (names []string) {
	for i := range m.Models {
		if m.Models[i].Kind == kind {
			names = append(names, m.Models[i].Name)
		}
	}
	return names
}

var (
	fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	hexHash  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	version  = regexp.MustCompile(`^\d+\.\d+\.\d+$`)
)

func (m *Manifest) check() error {
	var errs []error
	if !version.MatchString(m.Runtime.Version) {
		errs = append(errs, fmt.Errorf("runtime: %q is no version", m.Runtime.Version))
	}
	for at, f := range m.Runtime.Files {
		if err := f.check(); err != nil || f.SHA256 == "" {
			errs = append(errs, fmt.Errorf("runtime for %s: %w", at, errors.Join(err, missing("a hash", f.SHA256 == ""))))
		}
	}
	for i := range m.Models {
		x := &m.Models[i]
		if slices.ContainsFunc(m.Models[:i], func(y Model) bool { return y.Name == x.Name }) {
			errs = append(errs, fmt.Errorf("model %s is listed twice", x.Name))
		}
		if err := x.check(); err != nil {
			errs = append(errs, fmt.Errorf("model %q: %w", x.Name, err))
		}
	}
	return errors.Join(errs...)
}

func missing(what string, is bool) error {
	if is {
		return fmt.Errorf("%s is missing or wrong", what)
	}
	return nil
}

func (x *Model) check() error {
	embeds, names := x.Kind == Embedding, x.Kind == Entities
	return errors.Join(
		missing("its name", !fileName.MatchString(x.Name)),
		missing("its kind", !embeds && !names && x.Kind != Injection),
		missing("its licence", x.Licence == ""),
		missing("the number of dimensions", x.Dimensions < 1),
		missing("a threshold from 0 to 1", !(x.Threshold > 0 && x.Threshold <= 1)),
		missing("its window", x.Window < 3 || x.Overlap < 0 || x.Overlap > (x.Window-2)/2),
		missing("the name of its output", x.Output == ""),
		missing("its pooling", x.Pooling != "" && x.Pooling != "mean"),
		missing("its head", (embeds || names) != (x.Head == "") || x.Head != "" && x.Head != "sigmoid" && x.Head != "softmax"),
		missing("its temperature", x.Head != "" && !(x.Temperature > 0) || x.Head == "softmax" && x.Dimensions < 2),
		missing("its labels, one of each dimension", names != (len(x.Labels) > 0) || names && (len(x.Labels) != x.Dimensions || !slices.ContainsFunc(x.Labels, isLabel))),
		missing("its tokenizer", x.Tokenizer != "wordpiece" && x.Tokenizer != "unigram"),
		x.Files.Model.check(), x.Files.Tokenizer.check(),
	)
}

// isLabel reports whether a label is that of a name.
func isLabel(s string) bool { return strings.HasPrefix(s, "B-") || strings.HasPrefix(s, "I-") }

func (f *File) check() error {
	return errors.Join(
		missing("the name of a file", !fileName.MatchString(f.Name)),
		missing("the hash of "+f.Name, f.SHA256 != "" && !hexHash.MatchString(f.SHA256) || f.SHA256 == "" && f.Address == ""),
	)
}
