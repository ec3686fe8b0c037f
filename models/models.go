// Package models runs small models on this machine: for embeddings, for detecting injected instructions, and for finding names. It knows the models
// by their manifest, and their runtime by an interface. A model that is missing or invalid is off, with the reason: nothing replaces it.
package models

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/models/manifest"
	"bardo.money/gateway/models/unigram"
	"bardo.money/gateway/models/wordpiece"
)

// Embedder computes embeddings of texts.
type Embedder interface {
	// Embed returns the vector of a text, of length 1. A text longer than the model's window is cut. Errors wrap ErrOff, ErrBusy, or ctx's error.
	// Safe for concurrent use.
	Embed(ctx context.Context, text string) ([]float32, error)
	// Dims returns the number of dimensions.
	Dims() int
	// Threshold returns the cosine above which two texts may have the same meaning.
	Threshold() float64
	// Tag identifies the model and the version of the runtime: vectors with different tags must not be compared. It is "" before the first Embed.
	Tag() string
}

// Classifier detects instructions for a model in texts.
type Classifier interface {
	// Score returns the probability that a text contains such instructions, from 0 to 1: for a long text, the maximum over its windows. Errors are
	// those of Embed. Safe for concurrent use.
	Score(ctx context.Context, text string) (float64, error)
	// Threshold returns the score from which a text counts as containing instructions.
	Threshold() float64
	// Tag is as in Embedder.
	Tag() string
}

// Recognizer finds names of people, places and the like in texts.
type Recognizer interface {
	// Entities returns the names in a text, in order. A long text is processed in overlapping windows. Errors are those of Embed. Safe for concurrent
	// use.
	Entities(ctx context.Context, text string) ([]Entity, error)
}

// Entity is a name in a text, by byte offsets, End excluded.
type Entity struct {
	Start int     `json:"start"`
	End   int     `json:"end"`
	Label string  `json:"label"` // its type in the model's terms: PER, LOC
	Score float64 `json:"score"` // lowest probability of its words
}

// Vector is a text's vector, with the part of the text that was processed.
type Vector struct {
	Values []float32
	Tokens int  // processed by the model, including the special ones
	Cut    bool // the text has more tokens than the model's window
}

// Measurer is an Embedder that reports how much of a text was processed.
type Measurer interface {
	// Measure is Embed.
	Measure(ctx context.Context, text string) (Vector, error)
}

// About describes a model before it is loaded.
type About struct {
	Name       string  `json:"name"` // "": none is chosen
	Dimensions int     `json:"dimensions"`
	Window     int     `json:"window"` // maximum tokens of a text, including special ones
	Threshold  float64 `json:"threshold"`
}

// Runtime is a loaded library that runs models.
type Runtime struct {
	Version string
	Open    func(path, output string) (Session, error)
}

// ErrOff is the error of a model that does not run. Its wrapper has the reason.
var ErrOff = errors.New("the local model is off")

// Off is the name for no model.
const Off = "off"

// stops is the reason for which a closed Host's models are off.
const stops = "the gateway stops"

// Auto selects the default model of a kind, if it is installed.
const Auto = "auto"

// Options configure which models are used.
type Options struct {
	Manifest *manifest.Manifest
	Dirs     manifest.Dirs                         // where the files are searched
	Library  string                                // path of ONNX Runtime; "": the manifest's, in Dirs
	Load     func(library string) (Runtime, error) // nil: this program cannot run models
	Choice   map[manifest.Kind]string              // name, Auto (or "") or Off, by kind; no names are looked for unless a model is chosen
	Threads  int                                   // sessions per model; zero means 1
	Log      *slog.Logger
	Meter    Meter
}

// Host holds the models of a process. It loads a model at its first use; callers wait for that until their contexts are done. Safe for concurrent
// use.
type Host struct {
	o     Options
	slots map[manifest.Kind]*slot
}

// NewHost finds the files of the models; it does not read them. The error is about an unknown name.
func NewHost(o Options) (*Host, error) {
	h := &Host{o: o, slots: make(map[manifest.Kind]*slot)}
	for _, kind := range []manifest.Kind{manifest.Embedding, manifest.Injection, manifest.Entities} {
		s := &slot{o: &h.o, kind: kind, name: o.Choice[kind]}
		switch {
		case s.name != "":
		case kind == manifest.Entities:
			s.name = Off
		default:
			s.name = Auto
		}
		if err := s.find(); err != nil {
			return nil, err
		}
		h.slots[kind] = s
	}
	return h, nil
}

// Embedder returns the embedding model.
func (h *Host) Embedder() Embedder { return embedder{h.slots[manifest.Embedding]} }

// Classifier returns the injection model.
func (h *Host) Classifier() Classifier { return classifier{h.slots[manifest.Injection]} }

// Measurer returns the embedder as a Measurer.
func (h *Host) Measurer() Measurer { return embedder{h.slots[manifest.Embedding]} }

// Recognizer returns the model that finds names.
func (h *Host) Recognizer() Recognizer { return recognizer{h.slots[manifest.Entities]} }

// About describes the model of a kind.
func (h *Host) About(kind manifest.Kind) About {
	s := h.slots[kind]
	if s.model == nil {
		return About{Threshold: s.threshold()}
	}
	return About{Name: s.model.Name, Dimensions: s.model.Dimensions, Window: s.model.Window, Threshold: s.model.Threshold}
}

// Load loads the installed models. Those that cannot be loaded are off; Status has the reason.
func (h *Host) Load() {
	for _, kind := range h.kinds() {
		_, _ = h.slots[kind].ready(context.Background()) // Status has the error
	}
}

func (h *Host) kinds() []manifest.Kind {
	kinds := []manifest.Kind{manifest.Embedding, manifest.Injection}
	if h.slots[manifest.Entities].name != Off { // off for most gateways
		kinds = append(kinds, manifest.Entities)
	}
	return kinds
}

// Status returns the states of the models, by kind.
func (h *Host) Status() []Status {
	var all []Status
	for _, kind := range h.kinds() {
		all = append(all, h.slots[kind].status())
	}
	return all
}

// Close frees the models. Later calls fail.
func (h *Host) Close() error {
	var errs []error
	for _, s := range h.slots {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// State is the state of a model.
type State string

// The states.
const (
	StateOff       State = "off"       // by configuration
	StateAbsent    State = "absent"    // not installed
	StateInstalled State = "installed" // its files exist, and are not loaded yet
	StateReady     State = "ready"     // in memory
	StateFailed    State = "failed"    // its files are invalid, or cannot be read
)

// Status is the state of a model, with details.
type Status struct {
	Kind   manifest.Kind `json:"kind"`
	Name   string        `json:"name"` // "" if none is chosen
	State  State         `json:"state"`
	Detail string        `json:"detail"` // why it is off, or its path
	Chosen bool          `json:"chosen"` // the configuration names it
}

// Brief returns a model's state, without paths.
func (s *Status) Brief() string {
	switch s.State {
	case StateOff:
		return s.Detail
	case StateAbsent:
		return s.Name + " is not installed: what needs it is off"
	case StateFailed:
		return s.Name + " cannot be used: what needs it is off, and bardo doctor says more"
	case StateInstalled:
		return s.Name + " is installed, and read when it is needed"
	case StateReady:
	}
	return s.Name + " is in memory"
}

// NeedsAttention reports whether an operator has to act: a model is broken, or a configured one is missing.
func (s *Status) NeedsAttention() bool {
	return s.State == StateFailed || s.State == StateAbsent && s.Chosen
}

// slot holds the model of one kind.
type slot struct {
	o     *Options
	kind  manifest.Kind
	name  string // Auto, Off, or a model's name
	model *manifest.Model

	mu     sync.Mutex    // guards the fields below
	loaded chan struct{} // nil until the model is needed; closed when loading has ended
	state  State
	reason string // reason of the state
	tag    string
	reader *reader
}

// find chooses the model, and finds its files.
func (s *slot) find() error {
	if s.name == Off {
		s.state, s.reason = StateOff, fmt.Sprintf("models.%s is off", s.kind)
		return nil
	}
	name := s.name
	if name == Auto {
		name = s.o.Manifest.Of(s.kind)[0]
	}
	m, ok := s.o.Manifest.Model(name)
	if !ok || m.Kind != s.kind {
		return fmt.Errorf("models.%s: there is no model %q; there are %v", s.kind, name, s.o.Manifest.Of(s.kind))
	}
	s.model = m
	s.state = StateInstalled
	switch err := s.locate(); {
	case errors.Is(err, manifest.ErrAbsent):
		s.state, s.reason = StateAbsent, err.Error()
	case err != nil:
		s.state, s.reason = StateFailed, err.Error()
	}
	return nil
}

// locate finds the files, and sets the state.
func (s *slot) locate() (err error) {
	if s.reason, err = s.o.Dirs.Find(s.model.Files.Model); err != nil {
		return err
	}
	if _, err = s.o.Dirs.Find(s.model.Files.Tokenizer); err != nil || s.o.Library != "" {
		return err
	}
	library, err := s.library()
	if err == nil {
		_, err = s.o.Dirs.Find(library)
	}
	return err
}

// library returns the runtime's file for this machine.
func (s *slot) library() (manifest.File, error) {
	f, ok := s.o.Manifest.Runtime.Library()
	if !ok && s.o.Library == "" {
		return f, errors.New("there is no ONNX Runtime for this kind of machine: models.runtime can name one")
	}
	return f, nil
}

func (s *slot) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{Kind: s.kind, State: s.state, Detail: s.reason, Chosen: s.name != Auto}
	if s.model != nil {
		st.Name = s.model.Name
	}
	return st
}

// get returns the model; ok is false while it is not loaded.
func (s *slot) get() (r *reader, err error, ok bool) { //nolint:revive // the error is part of what is known
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == StateReady {
		return s.reader, nil, true
	}
	return nil, fmt.Errorf("%w: %s", ErrOff, s.reason), s.state != StateInstalled
}

// ready returns the model, and loads it if necessary. One goroutine loads it, which continues when ctx is done.
func (s *slot) ready(ctx context.Context) (*reader, error) {
	if r, err, ok := s.get(); ok {
		return r, err
	}
	select {
	case <-s.load():
	case <-ctx.Done():
		s.o.Meter.ModelRefused(s.model.Name, "deadline")
		return nil, fmt.Errorf("model %s is being read: %w", s.model.Name, ctx.Err())
	}
	r, err, _ := s.get()
	return r, err
}

// load starts loading the model, once. The returned channel is closed when that has ended.
func (s *slot) load() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded != nil {
		return s.loaded
	}
	done := make(chan struct{})
	s.loaded = done
	if s.state != StateInstalled { // closed in the meantime
		close(done)
		return done
	}
	guard.Go(func() { // close waits for it
		defer close(done)
		s.keep()
	})
	return done
}

// keep loads the model, and stores the result.
func (s *slot) keep() {
	var r *reader
	var tag, version string
	err := guard.Err(func() (err error) {
		r, tag, version, err = s.read()
		return err
	})()
	s.mu.Lock()
	if err == nil {
		s.state, s.reader, s.tag = StateReady, r, tag
		s.reason += ", ONNX Runtime " + version
	} else {
		s.state, s.reason = StateFailed, err.Error()
	}
	s.mu.Unlock()
	if err != nil {
		s.o.Log.Error("a local model is off: it cannot be used", "kind", string(s.kind), "model", s.model.Name, "error", err)
	}
}

// read checks the files, and creates a reader from them. The tag identifies the model and the runtime.
func (s *slot) read() (r *reader, tag, version string, err error) {
	if s.o.Load == nil {
		return nil, "", "", errors.New("this program runs no models")
	}
	library, path, err := s.check()
	if err != nil {
		return nil, "", "", err
	}
	words, err := s.tokenizer()
	if err != nil {
		return nil, "", "", err
	}
	runtime, err := s.o.Load(library)
	if err != nil {
		return nil, "", "", err
	}
	sum, err := s.o.Dirs.Sum(s.model.Files.Model)
	if err != nil {
		return nil, "", "", err
	}
	o := PoolOptions{Sessions: s.o.Threads, Meter: s.o.Meter}
	pool, err := NewPool(s.model.Name, s.model.Dimensions, o, func() (Session, error) { return runtime.Open(path, s.model.Output) })
	if err != nil {
		return nil, "", "", err
	}
	return &reader{model: s.model, words: words, pool: pool}, sum + " " + runtime.Version, runtime.Version, nil
}

// check compares the files with their hashes. An operator's own runtime has none.
func (s *slot) check() (library, model string, err error) {
	library = s.o.Library
	if library == "" {
		f, err := s.library()
		if err != nil {
			return "", "", err
		}
		if library, err = s.o.Dirs.Check(f); err != nil {
			return "", "", err
		}
	}
	if _, err := os.Stat(library); err != nil {
		return "", "", fmt.Errorf("models.runtime: %w", err)
	}
	if _, err = s.o.Dirs.Check(s.model.Files.Tokenizer); err != nil {
		return "", "", err
	}
	model, err = s.o.Dirs.Check(s.model.Files.Model)
	return library, model, err
}

// Examine compares the files of all models with their hashes. It runs none of them.
func Examine(o Options) ([]Status, error) {
	var all []Status
	for i := range o.Manifest.Models {
		m := &o.Manifest.Models[i]
		s := slot{o: &o, kind: m.Kind, name: m.Name}
		if err := s.find(); err != nil {
			return nil, err
		}
		if s.state == StateInstalled {
			if _, _, err := s.check(); err != nil {
				s.state, s.reason = StateFailed, err.Error()
			}
		}
		st := s.status()
		st.Chosen = o.Choice[m.Kind] == m.Name
		all = append(all, st)
	}
	return all, nil
}

// tokenizer reads the model's tokenizer.
func (s *slot) tokenizer() (Tokenizer, error) {
	path, err := s.o.Dirs.Check(s.model.Files.Tokenizer)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if s.model.Tokenizer == "unigram" {
		return unigram.Read(b)
	}
	return wordpiece.Read(b)
}

// close frees the model, and keeps it from being read again. It waits for one that is being read.
func (s *slot) close() error {
	s.mu.Lock()
	loaded := s.loaded
	if loaded == nil {
		s.state, s.reason = StateOff, stops
	}
	s.mu.Unlock()
	if loaded == nil {
		return nil
	}
	<-loaded
	s.mu.Lock()
	r := s.reader
	s.reader, s.state, s.reason = nil, StateOff, stops
	s.mu.Unlock()
	if r == nil {
		return nil
	}
	return r.pool.Close()
}

// threshold returns the chosen model's threshold; 1, which nothing reaches, if there is none.
func (s *slot) threshold() float64 {
	if s.model == nil {
		return 1
	}
	return s.model.Threshold
}

func (s *slot) tagOf() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tag
}

// None implements all four interfaces in a process that runs no models.
var None none

type none struct{}

var (
	_ Embedder   = none{}
	_ Measurer   = none{}
	_ Classifier = none{}
	_ Recognizer = none{}
)

// errNone is None's error.
var errNone = fmt.Errorf("%w: this process runs none", ErrOff)

// Embed implements Embedder.
func (none) Embed(context.Context, string) ([]float32, error) { return nil, errNone }

// Measure implements Measurer.
func (none) Measure(context.Context, string) (Vector, error) { return Vector{}, errNone }

// Score implements Classifier.
func (none) Score(context.Context, string) (float64, error) { return 0, errNone }

// Entities implements Recognizer.
func (none) Entities(context.Context, string) ([]Entity, error) { return nil, errNone }

// Dims implements Embedder.
func (none) Dims() int { return 0 }

// Threshold implements Embedder and Classifier.
func (none) Threshold() float64 { return 1 }

// Tag implements Embedder and Classifier.
func (none) Tag() string { return "" }

type embedder struct{ *slot }

var (
	_ Embedder = embedder{}
	_ Measurer = embedder{}
)

// Embed implements Embedder.
func (e embedder) Embed(ctx context.Context, text string) ([]float32, error) {
	v, err := e.Measure(ctx, text)
	return v.Values, err
}

// Measure implements Measurer.
func (e embedder) Measure(ctx context.Context, text string) (Vector, error) {
	r, err := e.ready(ctx)
	if err != nil {
		return Vector{}, err
	}
	return r.embed(ctx, text)
}

// Dims implements Embedder.
func (e embedder) Dims() int {
	if e.model == nil {
		return 0
	}
	return e.model.Dimensions
}

// Threshold implements Embedder.
func (e embedder) Threshold() float64 { return e.threshold() }

// Tag implements Embedder.
func (e embedder) Tag() string { return e.tagOf() }

type classifier struct{ *slot }

var _ Classifier = classifier{}

// Score implements Classifier.
func (c classifier) Score(ctx context.Context, text string) (float64, error) {
	r, err := c.ready(ctx)
	if err != nil {
		return 0, err
	}
	return r.score(ctx, text)
}

// Threshold implements Classifier.
func (c classifier) Threshold() float64 { return c.threshold() }

// Tag implements Classifier.
func (c classifier) Tag() string { return c.tagOf() }

type recognizer struct{ *slot }

var _ Recognizer = recognizer{}

// Entities implements Recognizer.
func (r recognizer) Entities(ctx context.Context, text string) ([]Entity, error) {
	reader, err := r.ready(ctx)
	if err != nil {
		return nil, err
	}
	return reader.entities(ctx, text)
}
